// Solves a sparse linear system with ViennaCL's conjugate gradients on an OpenCL device: a
// five-point Poisson problem on an N x N grid. Every iteration reads scalars back, so this is a
// chatty program.
#define VIENNACL_WITH_OPENCL
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>
#include <viennacl/compressed_matrix.hpp>
#include <viennacl/linalg/cg.hpp>
#include <viennacl/linalg/norm_2.hpp>
#include <viennacl/linalg/prod.hpp>
#include <viennacl/vector.hpp>

int main(int argc, char **argv) {
    const unsigned side = argc > 1 ? std::atoi(argv[1]) : 150, n = side * side;
    std::vector<std::map<unsigned, double>> rows(n);
    for (unsigned y = 0; y < side; y++)
        for (unsigned x = 0; x < side; x++) {
            const unsigned i = y * side + x;
            rows[i][i] = 4;
            if (x > 0) rows[i][i - 1] = -1;
            if (x + 1 < side) rows[i][i + 1] = -1;
            if (y > 0) rows[i][i - side] = -1;
            if (y + 1 < side) rows[i][i + side] = -1;
        }
    std::vector<double> right(n);
    for (unsigned i = 0; i < n; i++) right[i] = std::sin(0.001 * i);
    viennacl::compressed_matrix<double> a(n, n);
    viennacl::vector<double> b(n);
    viennacl::copy(rows, a);
    viennacl::copy(right, b);
    viennacl::linalg::cg_tag tag(1e-9, 2000);
    viennacl::vector<double> x = viennacl::linalg::solve(a, b, tag);
    viennacl::vector<double> rest = viennacl::linalg::prod(a, x);
    rest -= b;
    const double left = viennacl::linalg::norm_2(rest), size = viennacl::linalg::norm_2(x);
    std::printf("%u unknowns, %u iterations, |x| = %.6f\n", n, unsigned(tag.iters()), size);
    std::printf("%s\n", left < 1e-5 ? "solved" : "not solved");
    return left < 1e-5 ? 0 : 1;
}
