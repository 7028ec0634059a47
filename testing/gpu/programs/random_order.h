// What has to come before what, for programs made at random: vector clocks of streams and of the
// host, and for each piece of memory who wrote and who read it last. Before something begins that
// is not ordered behind all that it conflicts with, `Order` tells which streams it must wait for.
#pragma once
#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

/// The same sequence of numbers for the same seed, on any machine.
struct Random {
    uint64_t state;
    uint64_t next() {
        uint64_t z = (state += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    /// One of 0 to n - 1.
    uint32_t below(uint32_t n) { return (uint32_t)(next() % n); }
    bool chance(uint32_t percent) { return below(100) < percent; }
    template <class T> T &one(std::vector<T> &of) { return of[below((uint32_t)of.size())]; }
    template <class T> T of(std::initializer_list<T> list) {
        return list.begin()[below((uint32_t)list.size())];
    }
};

using Clock = std::vector<uint32_t>;

static inline void join(Clock &into, const Clock &from) {
    if (into.size() < from.size()) into.resize(from.size());
    for (size_t i = 0; i < from.size(); i++) into[i] = std::max(into[i], from[i]);
}

class Order {
    struct Stamp {
        int lane;
        uint32_t index;
    };
    struct Memory {
        std::vector<Stamp> writers, readers;
    };
    std::vector<Clock> lanes_;
    /// Those of what was put into them last.
    std::vector<Clock> last_;
    Clock host_;
    std::vector<Memory> memory_;

    static bool knows(const Clock &clock, const Stamp &s) {
        return (size_t)s.lane < clock.size() && clock[s.lane] >= s.index;
    }
    Memory &memory(int piece) {
        if (memory_.size() <= (size_t)piece) memory_.resize(piece + 1);
        return memory_[piece];
    }
    std::set<int> missing(const Clock &clock, const std::vector<int> &reads,
                          const std::vector<int> &writes) {
        std::set<int> lanes;
        auto look = [&](const std::vector<Stamp> &stamps) {
            for (const Stamp &s : stamps)
                if (!knows(clock, s)) lanes.insert(s.lane);
        };
        for (int piece : reads) look(memory(piece).writers);
        for (int piece : writes) {
            look(memory(piece).writers);
            look(memory(piece).readers);
        }
        return lanes;
    }

public:
    int add_lane() {
        lanes_.emplace_back(host_);
        last_.emplace_back();
        return (int)lanes_.size() - 1;
    }
    /// The lanes that `lane` must wait for before it may do this; none if it may.
    std::set<int> before(int lane, const std::vector<int> &reads, const std::vector<int> &writes) {
        join(lanes_[lane], host_);
        auto lanes = missing(lanes_[lane], reads, writes);
        lanes.erase(lane);
        return lanes;
    }
    /// The same of the host.
    std::set<int> before_host(const std::vector<int> &reads, const std::vector<int> &writes) {
        return missing(host_, reads, writes);
    }
    /// Something was put into `lane`, after all that `before` named is ordered.
    void put(int lane, const std::vector<int> &reads, const std::vector<int> &writes) {
        Clock &clock = lanes_[lane];
        join(clock, host_);
        if (clock.size() <= (size_t)lane) clock.resize(lane + 1);
        Stamp stamp{lane, ++clock[lane]};
        for (int piece : writes) {
            memory(piece).writers = {stamp};
            memory(piece).readers.clear();
        }
        for (int piece : reads) memory(piece).readers.push_back(stamp);
        last_[lane] = clock;
    }
    /// What comes next in `lane` is behind what was put into `other`.
    void behind(int lane, int other) { join(lanes_[lane], last_[other]); }
    /// The host wrote: what ran before is over.
    void host_wrote(int piece) { memory(piece) = {}; }
    Clock recorded(int lane) {
        join(lanes_[lane], host_);
        return lanes_[lane];
    }
    void waits(int lane, const Clock &event) { join(lanes_[lane], event); }
    void host_waits(const Clock &event) { join(host_, event); }
    void host_waits_for_all() {
        for (auto &lane : lanes_) join(host_, lane);
    }
};
