"""ONNX importer. One module per operator family; each function's name is the operator's.

The stages of an import, see ``import_passes``::

    file or model in memory
      |  load_lazily              model_file: untrusted file, large weights stay in the file
      |  1 sanitize               correct what exporters are known to write wrongly
      |  2 flatten_sequences      inputs that are sequences or maps become tensors
      |  3 check_ssa              one producer for each tensor, before its readers
      |  4 name_dimensions        shapes given by the caller, names for dynamic axes
      |  5 convert_version        operators of old versions
      |  6 import_at_valid_sizes  import the nodes; narrow the dimensions; import again
      v
    Graph

Importing the nodes once (6, ``GraphImporter.run``)::

    weights, inputs   legalize_types: half precision, packed types and strings get a C type;
                      fixed_values: inputs whose value the caller fixes
    each node         schema and constraints -> the operator's importer, whose operators fold
                      constants -> computed_sizes: results that follow from sizes ->
                      propagate_types: ONNX types of the results
    outputs           restore_type: the declared element type
    whole graph       check_model: the declared types and shapes
"""

from .import_passes import import_model
from .model_file import data_files, default_inputs, parse_bytes

__all__ = ["data_files", "default_inputs", "import_model", "parse_bytes"]
