/*!
 * \file tvm/runtime/profiling.h
 * \brief C++: timers for work on a device.
 *
 * Header only, C++11 to C++20. Errors are exceptions (logging.h).
 */
#ifndef TVM_RUNTIME_PROFILING_H_
#define TVM_RUNTIME_PROFILING_H_

#include <tvm/runtime/logging.h>

#include <chrono>
#include <memory>

namespace tvm {
namespace runtime {

/*! \brief Measures from Start() to Stop() by the host's clock; both wait for the device. */
class TimerNode {
 public:
  explicit TimerNode(DLDevice device) : device_(device) {}
  void Start() {
    wait();
    start_ = Clock::now();
  }
  void Stop() {
    wait();
    stop_ = Clock::now();
  }
  /*! \brief Nanoseconds from Start() to Stop(). */
  int64_t SyncAndGetElapsedNanos() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(stop_ - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  void wait() const {
    detail::check_call(TVMSynchronize(device_.device_type, device_.device_id, nullptr));
  }
  DLDevice device_;
  Clock::time_point start_, stop_;
};

/*! \brief A timer; copies share one TimerNode. */
class Timer {
 public:
  /*! \brief Create a timer and start it. */
  static Timer Start(DLDevice device) {
    Timer made;
    made.node_ = std::make_shared<TimerNode>(device);
    made.node_->Start();
    return made;
  }
  TimerNode* operator->() const { return node_.get(); }

 private:
  Timer() = default;
  std::shared_ptr<TimerNode> node_;
};

}  // namespace runtime
}  // namespace tvm

#endif /* TVM_RUNTIME_PROFILING_H_ */
