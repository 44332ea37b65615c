// What TVM's own macro makes of a function that checks its argument: the text of an error is collected
// in an entry of the thread that the runtime has, an exception of the library's own carries it, and the
// exported function catches that. Declared here as far as a library of it needs.
#include <tvm/runtime/c_runtime_api.h>

#include <sstream>
#include <stdexcept>
#include <string>

namespace tvm {
namespace runtime {

std::string Backtrace();

namespace detail {

class LogFatal {
 public:
  struct Entry {
    std::ostringstream stream;
    std::string file;
    int line;
  };
  static Entry& GetEntry();
};

}  // namespace detail
}  // namespace runtime
}  // namespace tvm

namespace {

[[noreturn]] void fail(const char* file, int line, const std::string& what) {
  auto& entry = tvm::runtime::detail::LogFatal::GetEntry();
  entry.stream.str("");
  entry.file = file;
  entry.line = line;
  entry.stream << what << " in a file whose name is longer than short texts: " << entry.file << ':'
               << entry.line;
  throw std::runtime_error(entry.stream.str() + tvm::runtime::Backtrace());
}

}  // namespace

extern "C" TVM_DLL int addone(TVMValue* args, int* codes, int num_args, TVMValue* out,
                              int* out_code) {
  try {
    if (num_args != 1 || codes[0] != kTVMArgInt) fail("exported.cc", 7, "expected one int");
    out->v_int64 = args[0].v_int64 + 1;
    *out_code = kTVMArgInt;
    return 0;
  } catch (const std::exception& problem) {
    TVMAPISetLastError(problem.what());
    return -1;
  }
}
