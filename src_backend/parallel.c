/* Backend library: a parallel launch on a single thread is a call. */
#include <tvm/runtime/c_backend_api.h>

int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void* cdata, int num_task) {
  TVMParallelGroupEnv env;
  (void)num_task; /* a lambda splits its work by env.num_task, not by the requested number */
  env.sync_handle = NULL;
  env.num_task = 1;
  return flambda(0, &env, cdata) == 0 ? 0 : -1;
}

int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv* penv) {
  (void)task_id;
  (void)penv;
  return 0;
}
