#include "daemon/config/toml_value.h"

namespace atolld {

RawValue RawOf(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return node.as_string()->get();
    case toml::node_type::integer:
      return static_cast<int64_t>(node.as_integer()->get());
    case toml::node_type::floating_point:
      return node.as_floating_point()->get();
    case toml::node_type::boolean:
      return node.as_boolean()->get();
    case toml::node_type::array:
      return OtherValue{"a list"};
    case toml::node_type::table:
      return OtherValue{"a table"};
    default:
      return OtherValue{"a date or time"};
  }
}

}  // namespace atolld
