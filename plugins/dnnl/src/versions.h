/* Differences between oneDNN 2 and oneDNN 3. Functions return a oneDNN status. */
#ifndef TVMRT_PLUGINS_DNNL_VERSIONS_H_
#define TVMRT_PLUGINS_DNNL_VERSIONS_H_

#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>

/* Arguments of layer_desc_new(). Convolutions use the direct algorithm, since others transform their
 * operands and round differently. */
#define OPERANDS md[0], md[1], md[2], md[3]
#define CONVOLUTION                                                                           \
  dnnl_forward_inference, dnnl_convolution_direct, OPERANDS, window[0], window[1], window[2], \
      window[3]

#if DNNL_VERSION_MAJOR == 2

/* Layout of a float32 tensor: a pointer, as in oneDNN 3. */
typedef dnnl_memory_desc_t* descriptor;
typedef const dnnl_memory_desc_t* const_descriptor;
#define descriptor_free free
#define APPEND_ELTWISE(ops, ...) dnnl_post_ops_append_eltwise(ops, 1.0f, __VA_ARGS__)

/* Strides NULL: the primitive chooses the layout. The caller frees *out, also on failure. */
static inline dnnl_status_t descriptor_new(descriptor* out, int ndims, const dnnl_dim_t* dims,
                                           const dnnl_dim_t* strides) {
  *out = malloc(sizeof(**out));
  if (*out == NULL) return dnnl_out_of_memory;
  if (strides != NULL)
    return dnnl_memory_desc_init_by_strides(*out, ndims, dims, dnnl_f32, strides);
  return dnnl_memory_desc_init_by_tag(*out, ndims, dims, dnnl_f32, dnnl_format_tag_any);
}

/* A convolution, or a matmul if window is NULL. md: source, weights, bias or NULL, result. window:
 * strides, gaps between elements, padding before and after. */
static inline dnnl_status_t layer_desc_new(dnnl_primitive_desc_t* out, descriptor md[4],
                                           dnnl_dims_t* window, dnnl_engine_t engine,
                                           const_dnnl_primitive_attr_t attr) {
  union {
    dnnl_convolution_desc_t convolution;
    dnnl_matmul_desc_t matmul;
  } op;
  const dnnl_status_t status =
      window == NULL ? dnnl_matmul_desc_init(&op.matmul, OPERANDS)
                     : dnnl_dilated_convolution_forward_desc_init(&op.convolution, CONVOLUTION);
  return status != dnnl_success ? status : dnnl_primitive_desc_create(out, &op, attr, engine, NULL);
}

#else

typedef dnnl_memory_desc_t descriptor;
typedef const_dnnl_memory_desc_t const_descriptor;
#define descriptor_free dnnl_memory_desc_destroy
#define APPEND_ELTWISE dnnl_post_ops_append_eltwise

static inline dnnl_status_t descriptor_new(descriptor* out, int ndims, const dnnl_dim_t* dims,
                                           const dnnl_dim_t* strides) {
  return strides == NULL
             ? dnnl_memory_desc_create_with_tag(out, ndims, dims, dnnl_f32, dnnl_format_tag_any)
             : dnnl_memory_desc_create_with_strides(out, ndims, dims, dnnl_f32, strides);
}

static inline dnnl_status_t layer_desc_new(dnnl_primitive_desc_t* out, descriptor md[4],
                                           dnnl_dims_t* window, dnnl_engine_t engine,
                                           const_dnnl_primitive_attr_t attr) {
  if (window == NULL) return dnnl_matmul_primitive_desc_create(out, engine, OPERANDS, attr);
  return dnnl_convolution_forward_primitive_desc_create(out, engine, CONVOLUTION, attr);
}

#endif
#endif
