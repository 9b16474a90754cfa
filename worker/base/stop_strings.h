// Where a text ends: at the first of some strings, none of which is shown.
//
// Bytes go in one by one; out comes what can be shown already, so that a text can be printed as it
// is made: what may be the beginning of a stop is held back until it is clear. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace atolld {

class StopStrings {
 public:
  // Empty strings among `stops` are left out.
  explicit StopStrings(const std::vector<std::string>& stops);

  // What can be shown after the next byte. Once done() is true, no more bytes.
  std::string Take(uint8_t byte);

  bool done() const { return done_; }

  // What is still held back; a text that ends without a stop ends with it.
  std::string Rest();

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool done_ = false;
};

}  // namespace atolld
