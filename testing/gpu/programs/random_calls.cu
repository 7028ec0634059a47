// Programs made at random, as many as one likes: streams, events, copies, kernels, host functions,
// graphs and memory of all kinds, in any order that CUDA gives a meaning, and mistakes between
// them. Each prints what each call says and sums of what memory has, the same wherever it runs.
//
//     random_calls SEED [ROUNDS [STEPS [THREADS [DEVICES]]]]
//
// Round N of seed S is round 0 of seed S + N. With RANDOM_CALLS_CHECK in the environment all memory
// is summed up after each step, which tells where a difference begins, if it still does then. What
// may conflict is ordered by events and waits (random_order.h); a program that hangs is ended by a
// signal after a minute.
#include "random_program.h"
#include "random_graphs.h"
#include <cstring>
#include <thread>
#include <unistd.h>

namespace {

void (*const STEPS[])(Program &) = {
    step_work,  step_work,   step_work,      step_work,     step_work,   step_work,  step_work,
    step_host,  step_host,   step_host,      step_allocate, step_free,   step_pin,   step_capture,
    step_build, step_launch, step_launch,    step_launch,   step_change, step_clone, step_forget,
    step_wait,  step_hold,   step_file,      step_copy_now, step_ask,    step_advise, step_mistake,
    step_mistake, step_stream, step_learn,   step_learn,    step_context, step_map,  step_peer,
};

void round_of(uint64_t seed, int steps, bool alone, int devices, std::string &out) {
    Program p(seed, alone, devices, out);
    for (int i = 0; i < steps; i++) {
        p.begin_step(i);
        // The last step is for several devices.
        STEPS[p.random.below(sizeof STEPS / sizeof *STEPS - (devices == 1))](p);
        if (getenv("RANDOM_CALLS_CHECK")) p.check();
    }
    p.end();
}

} // namespace

int main(int count, char **words) {
    auto number = [&](int at, int otherwise) { return at < count ? atoi(words[at]) : otherwise; };
    int seed = number(1, 1), rounds = number(2, 1), steps = number(3, 120), threads = number(4, 1);
    int devices = number(5, 1);
    // A kernel that is loaded at its first launch may wait for work that another one holds.
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    setvbuf(stdout, nullptr, _IOLBF, 0);
    CHECK(cudaSetDevice(0));
    for (int round = 0; round < rounds; round++) {
        alarm(60);
        uint64_t first = (uint64_t)(seed + round) * 1000;
        printf("round of %d\n", seed + round);
        std::vector<std::string> said(threads);
        if (threads == 1) {
            round_of(first, steps, true, devices, said[0]);
        } else {
            std::vector<std::thread> all;
            for (int i = 0; i < threads; i++)
                all.emplace_back([&, i] { round_of(first + i, steps, false, devices, said[i]); });
            for (auto &one : all) one.join();
            for (auto &one : said) printf("%s", one.c_str());
        }
        for (int d = devices; d-- > 0;) {
            CHECK(cudaSetDevice(d));
            CHECK(cudaDeviceSynchronize());
            if (seed + round & 1) CHECK(cudaDeviceReset());
        }
    }
    printf("done\n");
}
