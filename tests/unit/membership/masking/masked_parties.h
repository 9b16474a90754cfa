// Eight parties and a coordinator in one process, between which the test passes the messages. Each
// test decides which parties become silent, and at which step.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compression/ring_codec.h"
#include "membership/history/signing_key.h"
#include "membership/masking/mask_party.h"
#include "membership/masking/mask_round.h"

namespace atolld {

// The step at which a party stops answering.
enum class Silence { kNever, kKeys, kShares, kUpdate, kConsent, kOpening };

class MaskedParties {
 public:
  static constexpr uint32_t kParties = 8;
  static constexpr uint32_t kThreshold = 6;
  static constexpr size_t kElements = 1000;
  static constexpr uint64_t kChunk = 3;

  explicit MaskedParties(uint64_t attempt = 1);

  static std::string Name(uint32_t party);
  void FallSilent(uint32_t party, Silence silence) { silence_[Name(party)] = silence; }

  // Carries out all steps. Returns the sum of the codes without masks, or the reason why there is
  // none. Parties that were left out of the sum are not in `contributors`.
  absl::StatusOr<std::vector<uint32_t>> Run();

  // The single steps, for tests that do something between them.
  absl::Status Begin();  // exchanges keys, roster and shares; afterwards updates can be masked
  std::vector<uint32_t> Masked(uint32_t party);       // a party's update as a reducer sees it
  std::vector<uint32_t> Codes(uint32_t party) const;  // the same update without a mask
  // Returns the plain sum of the codes of these parties.
  std::vector<uint32_t> PlainSum(const std::vector<std::string>& parties) const;

  MaskParty& party(uint32_t index) { return *parties_.at(Name(index)); }
  MaskRound& round() { return round_; }
  const RingForm& ring() const { return ring_; }
  const SigningKey& signing_key(uint32_t index) const { return keys_.at(Name(index)); }

 private:
  bool Answers(const std::string& name, Silence step) const;
  absl::StatusOr<std::vector<uint32_t>> Unmask(std::vector<uint32_t> sum);

  const RingForm ring_{4, kParties};
  v1::MaskAttempt attempt_;
  std::map<std::string, SigningKey> keys_;
  std::map<std::string, std::unique_ptr<MaskParty>> parties_;
  std::map<std::string, Silence> silence_;
  MaskRound round_;
};

}  // namespace atolld
