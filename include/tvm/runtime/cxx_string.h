/*!
 * \file tvm/runtime/cxx_string.h
 * \brief C++: a string, with TVM's name.
 */
#ifndef TVM_RUNTIME_CXX_STRING_H_
#define TVM_RUNTIME_CXX_STRING_H_

#include <string>
#include <utility>

namespace tvm {
namespace runtime {

/*! \brief A std::string; passed to functions as text, converted from text and string objects. */
class String : public std::string {
 public:
  using std::string::string;
  String() = default;
  String(const char* text) : std::string(text) {}             // NOLINT: implicit
  String(std::string text) : std::string(std::move(text)) {}  // NOLINT: implicit
};

}  // namespace runtime

using runtime::String;

}  // namespace tvm

#endif /* TVM_RUNTIME_CXX_STRING_H_ */
