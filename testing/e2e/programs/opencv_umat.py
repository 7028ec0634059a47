"""OpenCV's functions on OpenCL devices, on pictures made up here: a hash of each result."""

import hashlib
import os

os.environ["OPENCV_OPENCL_DEVICE"] = ":ALL:"

import cv2  # noqa: E402
import numpy as np  # noqa: E402

cv2.ocl.setUseOpenCL(True)
if not (cv2.ocl.haveOpenCL() and cv2.ocl.useOpenCL()):
    raise SystemExit("OpenCV has found no OpenCL device")

rng = np.random.default_rng(1)
PICTURE = rng.integers(0, 256, (480, 640, 3), dtype=np.uint8)
GRAY = rng.integers(0, 256, (480, 640), dtype=np.uint8)
NUMBERS = rng.random((256, 256), dtype=np.float32)
picture, gray, numbers = cv2.UMat(PICTURE), cv2.UMat(GRAY), cv2.UMat(NUMBERS)
turn = cv2.getRotationMatrix2D((320, 240), 30, 1.1)
tilt = np.float32([[1, 0.1, 3], [0.05, 1, 2], [1e-4, 1e-4, 1]])
lens = np.float64([[500, 0, 320], [0, 500, 240], [0, 0, 1]]), np.float64([0.1, -0.05, 0, 0])
rows, columns = np.indices((480, 640)).astype(np.float32)
square = np.ones((5, 5), np.uint8)
shifted = cv2.UMat(np.roll(GRAY, 2, 1))
points = cv2.UMat(np.float32([[[100, 100]], [[200, 150]]]))

CALLS = {
    "to gray": lambda: cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY),
    "to HSV": lambda: cv2.cvtColor(picture, cv2.COLOR_BGR2HSV),
    "to Lab": lambda: cv2.cvtColor(picture, cv2.COLOR_BGR2Lab),
    "to YUV": lambda: cv2.cvtColor(picture, cv2.COLOR_BGR2YUV_I420),
    "Gaussian": lambda: cv2.GaussianBlur(picture, (7, 7), 1.5),
    "median": lambda: cv2.medianBlur(gray, 5),
    "bilateral": lambda: cv2.bilateralFilter(gray, 9, 75, 75),
    "box": lambda: cv2.boxFilter(picture, -1, (5, 5)),
    "Sobel": lambda: cv2.Sobel(gray, cv2.CV_32F, 1, 0),
    "Scharr": lambda: cv2.Scharr(gray, cv2.CV_16S, 0, 1),
    "Laplacian": lambda: cv2.Laplacian(gray, cv2.CV_32F, ksize=3),
    "Canny": lambda: cv2.Canny(gray, 50, 150),
    "erode": lambda: cv2.erode(gray, square),
    "dilate": lambda: cv2.dilate(picture, square, iterations=2),
    "gradient": lambda: cv2.morphologyEx(gray, cv2.MORPH_GRADIENT, square),
    "resize": lambda: cv2.resize(picture, (320, 200)),
    "by area": lambda: cv2.resize(picture, (160, 120), interpolation=cv2.INTER_AREA),
    "affine": lambda: cv2.warpAffine(picture, turn, (640, 480)),
    "perspective": lambda: cv2.warpPerspective(gray, tilt, (640, 480)),
    "remap": lambda: cv2.remap(gray, cv2.UMat(columns * 0.9), cv2.UMat(rows * 0.8),
                               cv2.INTER_LINEAR),
    "pyramid": lambda: cv2.pyrUp(cv2.pyrDown(picture)),
    "threshold": lambda: cv2.threshold(gray, 100, 255, cv2.THRESH_BINARY)[1],
    "adaptive": lambda: cv2.adaptiveThreshold(gray, 255, cv2.ADAPTIVE_THRESH_MEAN_C,
                                              cv2.THRESH_BINARY, 11, 2),
    "equalize": lambda: cv2.equalizeHist(gray),
    "CLAHE": lambda: cv2.createCLAHE(2.0, (8, 8)).apply(gray),
    "histogram": lambda: cv2.calcHist([gray], [0], None, [256], [0, 256]),
    "integral": lambda: cv2.integral(gray),
    "match": lambda: cv2.matchTemplate(gray, cv2.UMat(GRAY[10:50, 20:70].copy()),
                                       cv2.TM_CCORR_NORMED),
    "matrices": lambda: cv2.gemm(numbers, numbers, 1.0, None, 0.0),
    "Fourier": lambda: cv2.dft(numbers, flags=cv2.DFT_COMPLEX_OUTPUT),
    "sums": lambda: cv2.addWeighted(picture, 0.3, cv2.UMat(PICTURE[::-1].copy()), 0.7, 3),
    "products": lambda: cv2.multiply(numbers, numbers, scale=0.5),
    "bits": lambda: cv2.bitwise_xor(gray, cv2.UMat(GRAY[::-1].copy())),
    "extremes": lambda: np.array(cv2.minMaxLoc(gray)[:2]),
    "count": lambda: np.array(cv2.countNonZero(gray)),
    "reduce": lambda: cv2.reduce(gray, 0, cv2.REDUCE_SUM, dtype=cv2.CV_32S),
    "flip": lambda: cv2.flip(cv2.transpose(picture), 1),
    "planes": lambda: cv2.merge(cv2.split(picture)[::-1]),
    "table": lambda: cv2.LUT(gray, np.arange(255, -1, -1, dtype=np.uint8)),
    "normalize": lambda: cv2.normalize(numbers, None, 0, 255, cv2.NORM_MINMAX, cv2.CV_8U),
    "exp": lambda: cv2.exp(numbers),
    "log": lambda: cv2.log(numbers),
    "power": lambda: cv2.pow(numbers, 2.5),
    "phase": lambda: cv2.phase(numbers, numbers),
    "flow": lambda: cv2.calcOpticalFlowFarneback(gray, shifted, None, 0.5, 3, 15, 3, 5, 1.2, 0),
    "tracks": lambda: cv2.calcOpticalFlowPyrLK(gray, shifted, points, None)[0],
    "corners": lambda: cv2.goodFeaturesToTrack(gray, 50, 0.01, 10),
    "denoise": lambda: cv2.fastNlMeansDenoising(cv2.UMat(GRAY[:120, :160].copy())),
    "undistort": lambda: cv2.undistort(picture, *lens),
    "a part": lambda: cv2.GaussianBlur(cv2.UMat(picture, [100, 300], [50, 400]), (5, 5), 1),
    "in range": lambda: cv2.inRange(picture, (10, 10, 10), (200, 200, 200)),
    "border": lambda: cv2.copyMakeBorder(picture, 5, 6, 7, 8, cv2.BORDER_REFLECT),
    "separable": lambda: cv2.sepFilter2D(gray, cv2.CV_32F, np.float32([1, 2, 1]),
                                         np.float32([1, 0, -1])),
}

for name, call in CALLS.items():
    result = call()
    array = np.asarray(result.get() if isinstance(result, cv2.UMat) else result)
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    print(f"{name}: {array.shape} {array.dtype} {digest[:16]}")
