// Makes the bytes of a .npy file like numpy: in format 1.0, with the header padded to a multiple of
// 64 bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace atolld {

template <typename T>
std::string Npy(const std::string& type, const std::string& shape, const std::vector<T>& values) {
  std::string header =
      absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': (", shape, "), }");
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 255);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return bytes;
}

}  // namespace atolld
