/*!
 * \file tvm/runtime/logging.h
 * \brief C++: exceptions, checks, and log lines on standard error.
 *
 * Header only, C++11 to C++20. A failed check throws InternalError. An exception that reaches the C
 * ABI becomes the error of that call; an error of a C call becomes an exception.
 */
#ifndef TVM_RUNTIME_LOGGING_H_
#define TVM_RUNTIME_LOGGING_H_

#include <tvm/runtime/c_runtime_api.h>

#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

/* Exception that programs for TVM catch. Programs with dmlc's headers include them first. */
#ifndef DMLC_LOGGING_H_
#define DMLC_LOGGING_H_
namespace dmlc {
struct Error : public std::runtime_error {
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};
}  // namespace dmlc
#endif

namespace tvm {
namespace runtime {

/*! \brief Base class of the runtime's exceptions. */
class Error : public ::dmlc::Error {
 public:
  explicit Error(const std::string& message) : ::dmlc::Error(message) {}
};

/*! \brief A failed check, or an error that a call over the C ABI returned. */
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(message) {}
  InternalError(const std::string& file, int line, const std::string& message)
      : Error(message), file_(file), line_(line) {}
  /*! \brief The source file that threw; empty for errors of C ABI calls. */
  const std::string& file() const { return file_; }
  /*! \brief Its line. */
  int lineno() const { return line_; }
  /*! \brief The error text without a prefix. */
  std::string message() const { return what(); }

 private:
  std::string file_;
  int line_ = 0;
};

namespace detail {

/*! \brief Throw the thread's last error if `code`, the result of a C ABI function, is not 0. */
inline void check_call(int code) {
  if (code == 0) return;
  const char* text = TVMGetLastError();
  throw InternalError(text != nullptr && *text != '\0' ? text
                                                       : "a function failed without an error text");
}

/*! \brief Collects a text; its destructor throws the text. */
class LogFatal {
 public:
  LogFatal(const char* file, int line) : file_(file), line_(line) {}
  std::ostringstream& stream() { return stream_; }
  ~LogFatal() noexcept(false) { throw InternalError(file_, line_, stream_.str()); }

 private:
  const char* file_;
  int line_;
  std::ostringstream stream_;
};

/*! \brief Collects a line and writes it to standard error. */
class LogMessage {
 public:
  LogMessage(const char* file, int line) { stream_ << file << ':' << line << ": "; }
  std::ostringstream& stream() { return stream_; }
  ~LogMessage() { std::cerr << stream_.str() << std::endl; }

 private:
  std::ostringstream stream_;
};

/*! \brief Makes both branches of a check `void`. */
struct Voidify {
  void operator&(std::ostream&) {}
};

}  // namespace detail
}  // namespace runtime
}  // namespace tvm

/* A macro that another logging library defined before is kept. */
#ifndef LOG
#define TVMRT_LOG_DEBUG ::tvm::runtime::detail::LogMessage(__FILE__, __LINE__).stream()
#define TVMRT_LOG_INFO ::tvm::runtime::detail::LogMessage(__FILE__, __LINE__).stream()
#define TVMRT_LOG_WARNING ::tvm::runtime::detail::LogMessage(__FILE__, __LINE__).stream()
#define TVMRT_LOG_ERROR ::tvm::runtime::detail::LogMessage(__FILE__, __LINE__).stream()
#define TVMRT_LOG_FATAL ::tvm::runtime::detail::LogFatal(__FILE__, __LINE__).stream()
#define LOG(level) TVMRT_LOG_##level
#endif

#define ICHECK(x)                                                         \
  (x) ? (void)0                                                           \
      : ::tvm::runtime::detail::Voidify() &                               \
            ::tvm::runtime::detail::LogFatal(__FILE__, __LINE__).stream() \
                << "Check failed: (" #x << ") is false: "
#define TVMRT_CHECK_BINARY(x, op, y)                                                       \
  ((x)op(y)) ? (void)0                                                                     \
             : ::tvm::runtime::detail::Voidify() &                                         \
                   ::tvm::runtime::detail::LogFatal(__FILE__, __LINE__).stream()           \
                       << "Check failed: " #x " " #op " " #y " (" << (x) << " vs. " << (y) \
                       << ") : "
#define ICHECK_EQ(x, y) TVMRT_CHECK_BINARY(x, ==, y)
#define ICHECK_NE(x, y) TVMRT_CHECK_BINARY(x, !=, y)
#define ICHECK_LT(x, y) TVMRT_CHECK_BINARY(x, <, y)
#define ICHECK_LE(x, y) TVMRT_CHECK_BINARY(x, <=, y)
#define ICHECK_GT(x, y) TVMRT_CHECK_BINARY(x, >, y)
#define ICHECK_GE(x, y) TVMRT_CHECK_BINARY(x, >=, y)
#define ICHECK_NOTNULL(x) \
  ((x) == nullptr ? throw ::tvm::runtime::InternalError("Check not null: " #x) : (x))

#ifndef CHECK
#define CHECK(x) ICHECK(x)
#define CHECK_EQ(x, y) ICHECK_EQ(x, y)
#define CHECK_NE(x, y) ICHECK_NE(x, y)
#define CHECK_LT(x, y) ICHECK_LT(x, y)
#define CHECK_LE(x, y) ICHECK_LE(x, y)
#define CHECK_GT(x, y) ICHECK_GT(x, y)
#define CHECK_GE(x, y) ICHECK_GE(x, y)
#endif

#endif /* TVM_RUNTIME_LOGGING_H_ */
