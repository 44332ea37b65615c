/*! \file link.h
 *  \brief Which function shows which. */
#ifndef TVMRT_PLUGINS_TVM_FFI_LINK_H_
#define TVMRT_PLUGINS_TVM_FFI_LINK_H_

/*!
 * \brief A function that shows another one of the other side.
 *
 * The functions made here are known by their address, so that one that goes back to where it came
 * from is the same again, instead of a function that shows one that shows one.
 */
typedef struct BridgeLink {
  void* outer; /* what was made, as the side that calls it knows it */
  void* inner; /* what it calls; one reference */
  struct BridgeLink* next;
} BridgeLink;

/*! \brief A link to `inner`, which the caller retains; NULL if there is no memory. free() it. */
BridgeLink* bridge_link_new(void* inner);
/*! \brief Make a link findable by what was made of it. */
void bridge_link_add(BridgeLink* link, void* outer);
/*! \brief Free a link; returns `inner`, whose reference is the caller's now. */
void* bridge_link_remove(BridgeLink* link);
/*! \brief What `outer`, which the caller keeps alive, shows: retained; NULL if nothing. */
void* bridge_link_find(const void* outer, void (*retain)(void* inner));

#endif /* TVMRT_PLUGINS_TVM_FFI_LINK_H_ */
