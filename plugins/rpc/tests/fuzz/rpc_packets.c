/* Packets of a client: each one gets one reply, and no address outside of the session's memory
   is used. */
#include "rpc_records.h"
#include "rpc_server.h"

/* Eight such bytes are replaced by the address of the session's last allocation. */
enum { ADDRESS = 0xa1 };

static void put_addresses(const tvmrt_rpc_endpoint* ep, tvmrt_buf* packet) {
  uint64_t address = 0;
  size_t i;
  for (i = 0; i < ep->handles.count; ++i) {
    if (ep->handles.items[i].data != 0) address = ep->handles.items[i].data;
  }
  for (i = 12; i + 8 <= packet->size && address != 0; ++i) {
    int k = 0;
    while (k < 8 && (uint8_t)packet->data[i + (size_t)k] == ADDRESS) ++k;
    if (k == 8) memcpy(packet->data + i, &address, 8);
  }
}

static void step(tvmrt_rpc_endpoint* ep, pipes* p, const record* r) {
  p->in.size = 0;
  p->at = 0;
  p->out.size = 0;
  append_packet(&p->in, r);
  put_addresses(ep, &p->in);
  while (pipes_wait(ep, p)) {
    p->out.size = 0;
    if (!fuzz_succeeded(tvmrt__rpc_endpoint_step(ep))) {
      ep->ended = true; /* the stream ended within a packet */
    } else if (p->out.size != 0) {
      (void)check_answer(&p->out);
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const uint8_t init[] = {5, 0, 0, 0, 0, 0, 0, 0, '0', '.', '8', '.', '0', 0, 0, 0, 0};
  record r = {TVMRT_RPC_INIT_SERVER, init, sizeof(init)};
  tvmrt_rpc_endpoint ep;
  tvmrt_channel ch;
  pipes p;
  memset(&p, 0, sizeof(p));
  enter_rpc();
  enter_served_functions();
  tvmrt__channel_init(&ch, &pipes_kind, &p);
  tvmrt__rpc_endpoint_begin(&ep, &ch);
  ep.max_packet_bytes = 1 << 16;
  ep.max_memory_bytes = 1 << 20;
  step(&ep, &p, &r);
  while (!ep.ended && next_record(&data, &size, &r)) step(&ep, &p, &r);
  tvmrt__rpc_endpoint_end(&ep);
  tvmrt__buf_free(&p.in);
  tvmrt__buf_free(&p.out);
  return 0;
}
