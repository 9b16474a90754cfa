// Garbage: makes bytes that no honest sender sends, for the tests of code that reads frames.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "google/protobuf/message_lite.h"

namespace atolld {

// Returns prefixes of `good`, messages of another shape, and bytes that are not a message.
inline std::vector<std::string> Garbage(const google::protobuf::MessageLite& good) {
  std::vector<std::string> garbage = {
      "\xff\xff\xff",                          // a tag without an end,
      "\x0a\x7f",                              // a length past the end,
      "\x0a\xff\xff\xff\xff\x0f",              // a length of 4 GiB,
      "\x08\x01",                              // field 1 as a number,
      std::string("\x0d\x01\x00\x00\x00", 5),  // as 4 bytes,
      "\x0a\x03\xff\xfe\xfd",                  // as bytes that are neither text nor a message
      std::string(200, '\x0b'),                // nested groups without an end
      std::string(200, '\x0b') + std::string(200, '\x0c')};
  const std::string whole = good.SerializeAsString();
  for (size_t size = 0; size < whole.size(); ++size) garbage.push_back(whole.substr(0, size));
  return garbage;
}

// Returns true if the bytes can be parsed as a message of this type, even a strange one.
inline bool CanBeRead(const google::protobuf::MessageLite& type, const std::string& bytes) {
  const std::unique_ptr<google::protobuf::MessageLite> message(type.New());
  return message->ParseFromString(bytes);
}

}  // namespace atolld
