/* Uploads that do not pass through memory: libraries with their weights are long.
 *
 * Looks at the head of a long call before it is read whole: where it calls this library's upload,
 * the bytes go to the file by way of a small buffer. What is anything else has lost nothing: the
 * bytes that were read are the packet's first. */
#include "endpoint.h"

/* Of such a call, up to its name: the function, the number of values, their types, the name's
 * length. */
enum { HEAD_BYTES = 28, MAX_NAME_BYTES = 256 };

/* (a name, bytes) for the function `upload`: reads up to the bytes, if it is that. */
static bool is_upload(const tvmrt_rpc_endpoint* ep, const tvmrt_buf* head, uint64_t* name_bytes) {
  tvmrt_reader in;
  uint64_t words[4]; /* the function; the number of values; their types */
  tvmrt_object* f = NULL;
  int i;
  tvmrt__reader_init(&in, "the packet", head->data, head->size);
  if (tvmrt__read_uint(&in, 8, &words[0]) != 0) return false;
  for (i = 1; i < 4; ++i) {
    if (tvmrt__read_uint(&in, 4, &words[i]) != 0) return false;
  }
  if (words[1] != 2 || words[2] != kTVMStr || words[3] != kTVMBytes) return false;
  if (tvmrt__read_uint(&in, 8, name_bytes) != 0 || *name_bytes > MAX_NAME_BYTES) return false;
  if (tvmrt__rpc_handles_find(&ep->handles, words[0], kTVMPackedFuncHandle, &f) != 0) return false;
  return tvmrt__rpc_is_upload(f);
}

/* -1 only where the channel broke. The name's length is bounded before it is read. */
int tvmrt__rpc_try_upload(tvmrt_rpc_endpoint* ep, uint64_t bytes, tvmrt_upload* out) {
  uint64_t name_bytes = 0;
  uint64_t size = 0;
  bool stored = false;
  tvmrt_reader in;
  *out = TVMRT_UPLOAD_NONE;
  TVMRT_RETURN_IF_ERROR(tvmrt__channel_append(ep->channel, HEAD_BYTES, &ep->body));
  if (!is_upload(ep, &ep->body, &name_bytes)) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__channel_append(ep->channel, name_bytes + 8, &ep->body));
  tvmrt__reader_init(&in, "the packet", ep->body.data + HEAD_BYTES + name_bytes, 8);
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(&in, 8, &size));
  if (size != bytes - ep->body.size) return 0;   /* malformed: as all others are */
  ep->body.data[HEAD_BYTES + name_bytes] = '\0'; /* the size was read */
  TVMRT_RETURN_IF_ERROR(
      tvmrt__rpc_folder_receive(ep->channel, ep->body.data + HEAD_BYTES, size, &stored));
  *out = stored ? TVMRT_UPLOAD_DONE : TVMRT_UPLOAD_FAILED;
  return 0;
}
