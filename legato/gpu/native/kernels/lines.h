// Arrays at lines of the cache: a load across two of them costs as much as two.
#pragma once
#include <cstddef>
#include <new>
#include <vector>

constexpr std::size_t kLine = 64;

template <typename T>
struct LineAllocator {
  using value_type = T;

  LineAllocator() = default;
  template <typename U>
  LineAllocator(const LineAllocator<U>&) {}

  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t(kLine)));
  }
  void deallocate(T* from, std::size_t) {
    ::operator delete(from, std::align_val_t(kLine));
  }
  bool operator==(const LineAllocator&) const { return true; }
};

template <typename T>
using Lines = std::vector<T, LineAllocator<T>>;
