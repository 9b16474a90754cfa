// AuditDraw: which chunks of an entry are recomputed before it is committed, and by whom.
//
// The draw depends on the header before, the payload that was voted for, and a nonce that the plan
// had committed to by its hash: whoever averages cannot know the nonce, and whoever knows it can no
// longer change it. With the header of the entry anybody can draw again. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace atolld {

// What a plan says of a nonce before it is told: SHA-256.
std::string AuditCommitment(absl::string_view nonce);

class AuditDraw {
 public:
  // Digests of 32 bytes: of the header before, and of the payload.
  AuditDraw(absl::string_view previous_header_digest, absl::string_view payload_digest,
            absl::string_view nonce);

  // Of `chunks` each with this probability, whatever comes of the others. Ascending.
  std::vector<uint32_t> Chunks(uint32_t chunks, float share);

  // One of those that have the least to do for their strength, above 0, which then has one more;
  // empty: there is nobody.
  std::string Auditor(const std::map<std::string, uint64_t>& strengths);

 private:
  uint64_t Next();

  const std::string seed_;
  uint64_t block_ = 0;
  std::string left_;  // of the block
  std::map<std::string, uint64_t> load_;
};

}  // namespace atolld
