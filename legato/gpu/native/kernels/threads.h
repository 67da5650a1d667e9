// A pool of threads that share out the items of one job at a time.
#pragma once
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
inline void relax() { _mm_pause(); }
#else
inline void relax() { std::this_thread::yield(); }
#endif

class Pool {
 public:
  explicit Pool(int num_threads) {
    for (int index = 1; index < num_threads; ++index)
      workers_.emplace_back([this] { serve(); });
  }

  ~Pool() {
    closed_.store(true);
    ticket_.fetch_add(kRound);
    ticket_.notify_all();
    for (auto& worker : workers_) worker.join();
  }

  int size() const { return int(workers_.size()) + 1; }

  // Calls job(item) for each of 0..items-1, on all threads; returns when all are done.
  template <typename Job>
  void run(int64_t items, const Job& job) {
    if (workers_.empty() || items < 2) {
      for (int64_t item = 0; item < items; ++item) call<Job>(&job, item);
      return;
    }
    call_ = call<Job>;
    context_ = &job;
    left_.store(items, std::memory_order_relaxed);
    round_ += kRound;
    ticket_.store(round_ | uint64_t(items), std::memory_order_seq_cst);
    ticket_.notify_all();
    while (take()) {
    }
    for (int spins = 0; left_.load(std::memory_order_acquire); ++spins)
      spins < kSpins ? relax() : std::this_thread::yield();
  }

 private:
  // The ticket holds the number of the job and how many of its items are not taken.
  static constexpr uint64_t kRound = uint64_t(1) << 32;
  // About 50 us: longer than the gap between two jobs of a step, shorter than a slice
  // that somebody else on the core would miss.
  static constexpr int kSpins = 1000;

  // Compiled once, so that numbers have the same bits with any number of threads: of two
  // copies a compiler may fuse a multiplication with an addition in one alone.
  template <typename Job>
#if defined(__clang__)
  [[gnu::noinline]]
#else
  [[gnu::noinline, gnu::noclone]]
#endif
  static void call(const void* job, int64_t item) {
    (*static_cast<const Job*>(job))(item);
  }

  bool take() {
    uint64_t ticket = ticket_.load(std::memory_order_acquire);
    do {
      if (!(ticket & (kRound - 1))) return false;
    } while (!ticket_.compare_exchange_weak(ticket, ticket - 1,
                                            std::memory_order_acq_rel));
    // A job cannot end while one of its items is taken and not done, so what is read
    // here belongs to the ticket, however late this thread woke.
    call_(context_, int64_t(ticket & (kRound - 1)) - 1);
    left_.fetch_sub(1, std::memory_order_acq_rel);
    return true;
  }

  void serve() {
    while (!closed_.load(std::memory_order_relaxed)) {
      if (take()) continue;
      int spins = 0;
      uint64_t seen = ticket_.load(std::memory_order_acquire);
      while (!(seen & (kRound - 1)) && spins++ < kSpins) {
        relax();
        seen = ticket_.load(std::memory_order_acquire);
      }
      if (!(seen & (kRound - 1)) && !closed_.load()) ticket_.wait(seen);
    }
  }

  std::vector<std::thread> workers_;
  std::atomic<uint64_t> ticket_{0};
  std::atomic<int64_t> left_{0};
  std::atomic<bool> closed_{false};
  uint64_t round_ = 0;
  void (*call_)(const void*, int64_t) = nullptr;
  const void* context_ = nullptr;
};
