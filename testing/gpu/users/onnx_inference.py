"""Inference with ONNX Runtime's CUDA provider: a network of convolutions, one of attention, bound
inputs and outputs, CUDA graphs, half precision, threads."""

import sys
import threading

import numpy as np
import onnxruntime as ort
import torch  # noqa: F401 (it brings the CUDA libraries that the provider needs)
from onnx import TensorProto, helper, numpy_helper

R = np.random.default_rng(5)
DEEP = 256


def weight(name, *shape, dtype=np.float32):
    return numpy_helper.from_array((R.standard_normal(shape) * 0.1).astype(dtype), name)


def model(nodes, weights, x, y, kind=TensorProto.FLOAT):
    sides = [helper.make_tensor_value_info(name, kind, shape) for name, shape in (x, y)]
    graph = helper.make_graph(nodes, "net", sides[:1], sides[1:], weights)
    opset = [helper.make_opsetid("", 20)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()


def convolutions(dtype=np.float32):
    nodes, weights, last, channels = [], [], "x", 3
    for i, (out, stride) in enumerate([(32, 1), (64, 2), (64, 1), (128, 2), (128, 1)]):
        weights += [weight(f"w{i}", out, channels, 3, 3, dtype=dtype)]
        weights += [weight(f"b{i}", out, dtype=dtype)]
        inputs = [last, f"w{i}", f"b{i}"]
        nodes += [
            helper.make_node("Conv", inputs, [f"c{i}"], pads=[1] * 4, strides=[stride] * 2),
            helper.make_node("Relu", [f"c{i}"], [f"r{i}"]),
        ]
        last, channels = f"r{i}", out
    weights += [weight("head", channels, 10, dtype=dtype)]
    nodes += [
        helper.make_node("GlobalAveragePool", [last], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "head"], ["m"]),
        helper.make_node("Softmax", ["m"], ["y"], axis=-1),
    ]
    kind = TensorProto.FLOAT if dtype == np.float32 else TensorProto.FLOAT16
    return model(nodes, weights, ("x", ["n", 3, 64, 64]), ("y", ["n", 10]), kind)


def attention(layers=4):
    nodes, weights, last = [], [], "x"
    for i in range(layers):
        for name in "qkvo":
            weights.append(weight(f"{name}{i}", DEEP, DEEP))
        weights += [weight(f"u{i}", DEEP, 4 * DEEP), weight(f"d{i}", 4 * DEEP, DEEP)]
        weights.append(numpy_helper.from_array(np.ones(DEEP, np.float32), f"s{i}"))
        weights.append(numpy_helper.from_array(np.zeros(DEEP, np.float32), f"z{i}"))
        step = lambda op, inputs, out, **how: helper.make_node(op, inputs, [out], **how)
        nodes.append(step("LayerNormalization", [last, f"s{i}", f"z{i}"], f"n{i}", axis=-1))
        nodes += [step("MatMul", [f"n{i}", f"{a}{i}"], f"{a}m{i}") for a in "qkv"]
        nodes += [
            step("Transpose", [f"km{i}"], f"kt{i}", perm=[0, 2, 1]),
            step("MatMul", [f"qm{i}", f"kt{i}"], f"a{i}"),
            step("Softmax", [f"a{i}"], f"p{i}", axis=-1),
            step("MatMul", [f"p{i}", f"vm{i}"], f"av{i}"),
            step("MatMul", [f"av{i}", f"o{i}"], f"ao{i}"),
            step("Add", [last, f"ao{i}"], f"x1{i}"),
            step("MatMul", [f"x1{i}", f"u{i}"], f"up{i}"),
            step("Gelu", [f"up{i}"], f"ge{i}"),
            step("MatMul", [f"ge{i}", f"d{i}"], f"dn{i}"),
            step("Add", [f"x1{i}", f"dn{i}"], f"x2{i}"),
        ]
        last = f"x2{i}"
    nodes.append(helper.make_node("Identity", [last], ["y"]))
    shape = ["n", "t", DEEP]
    return model(nodes, weights, ("x", shape), ("y", shape))


def session(made, **how):
    quiet = ort.SessionOptions()
    quiet.log_severity_level = 3
    how = {"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"} | how
    s = ort.InferenceSession(made, quiet, providers=[("CUDAExecutionProvider", how)])
    assert s.get_providers()[0] == "CUDAExecutionProvider", s.get_providers()
    return s


def main():
    rounds = 200 // (int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    x = R.standard_normal((16, 3, 64, 64)).astype(np.float32)
    z = R.standard_normal((2, 128, DEEP)).astype(np.float32)
    net = session(convolutions())
    for _ in range(rounds):
        y = net.run(None, {"x": x})[0]
    print("convolutions", y.shape, np.round(y[0], 4).tolist())
    half = session(convolutions(np.float16)).run(None, {"x": x.astype(np.float16)})[0]
    print("half", np.round(half[1].astype(float), 2).tolist())
    words = attention()
    s = session(words)
    there = ort.OrtValue.ortvalue_from_numpy(z, "cuda", 0)
    back = ort.OrtValue.ortvalue_from_shape_and_type(z.shape, np.float32, "cuda", 0)
    for name, one in (("bound", s), ("graph", session(words, enable_cuda_graph="1"))):
        bound = one.io_binding()
        bound.bind_ortvalue_input("x", there)
        bound.bind_ortvalue_output("y", back)
        for k in range(rounds):
            if k == rounds // 2:
                there.update_inplace(z[::-1].copy())
            one.run_with_iobinding(bound)
        print(name, np.round(back.numpy()[1, 3, :5], 3).tolist())
    found = [None] * 4

    def work(i):
        found[i] = net.run(None, {"x": x + i})[0]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for step in (threading.Thread.start, threading.Thread.join):
        for t in threads:
            step(t)
    print("threads", [float(np.round(f[0, 0], 4)) for f in found])
    tight = session(words, arena_extend_strategy="kSameAsRequested", gpu_mem_limit=str(1 << 30))
    for n in (64, 192, 32, 300):
        y = tight.run(None, {"x": z[:, :1].repeat(n, 1)})[0]
        print("length", n, float(np.round(y.mean(), 4)))


main()
