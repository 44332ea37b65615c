/*!
 * \file tvm/runtime/cxx_string.h
 * \brief C++: a text, under the name that TVM's programs use.
 */
#ifndef TVM_RUNTIME_CXX_STRING_H_
#define TVM_RUNTIME_CXX_STRING_H_

#include <string>
#include <utility>

namespace tvm {
namespace runtime {

/*! \brief A std::string; it goes to functions as text, and comes from text and string objects. */
class String : public std::string {
 public:
  using std::string::string;
  String() = default;
  String(const char* text) : std::string(text) {}             // NOLINT: a text is one
  String(std::string text) : std::string(std::move(text)) {}  // NOLINT: likewise
};

}  // namespace runtime

using runtime::String;

}  // namespace tvm

#endif /* TVM_RUNTIME_CXX_STRING_H_ */
