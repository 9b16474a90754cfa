// FileHash: the SHA-256 of bytes that arrive in pieces. Used by one thread.
#pragma once

#include "absl/types/span.h"
#include "membership/history/digest.h"

struct evp_md_ctx_st;

namespace atolld {

class FileHash {
 public:
  FileHash();
  ~FileHash();
  FileHash(const FileHash&) = delete;
  FileHash& operator=(const FileHash&) = delete;

  void Add(absl::Span<const uint8_t> bytes);
  Digest Finish();  // must be called once, at the end

 private:
  evp_md_ctx_st* const context_;
};

}  // namespace atolld
