/* Uploads that are streamed to a file, since libraries with weights are large.
 *
 * Reads the start of a long call. If it calls this library's upload function, the bytes are copied
 * to the file through a small buffer. Otherwise the bytes read so far are the start of the packet's
 * body. */
#include "endpoint.h"

/* Bytes of such a call before the name: the function, the number of values, their types, the name's
 * length. */
enum { HEAD_BYTES = 28, MAX_NAME_BYTES = 256 };

/* Parse the header of a call upload(name, bytes), up to the name's length. */
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

/* -1 only if the channel broke. The name's length is checked before the name is read. */
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
  if (size != bytes - ep->body.size) return 0;   /* malformed: handled like any other call */
  ep->body.data[HEAD_BYTES + name_bytes] = '\0'; /* the size has been read already */
  TVMRT_RETURN_IF_ERROR(
      tvmrt__rpc_folder_receive(ep->channel, ep->body.data + HEAD_BYTES, size, &stored));
  *out = stored ? TVMRT_UPLOAD_DONE : TVMRT_UPLOAD_FAILED;
  return 0;
}
