// Measures what masks cost a party, a reducer and the network, in one run.
//
//   masking_benchmark [ELEMENTS [PARTIES [REPEATS]]]      4,194,304, 8 and 5 by default
//
// One thread, medians. A party's work: ring codes of its update, and its masks on them (its own and
// one with each other party). The unmasking side's work: the sum, and removing the masks that are
// left in it, with no party gone and with as many gone as the threshold allows. The handshake: all
// keys, shares, signatures and secrets of one attempt, of all parties together.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/check.h"
#include "compression/ring_codec.h"
#include "membership/masking/mask_announcement.h"
#include "membership/masking/mask_party.h"
#include "membership/masking/mask_round.h"
#include "membership/masking/unmasking.h"

namespace atolld {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double MedianSeconds(int repeats, const std::function<void()>& work) {
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const double begin = Now();
    work();
    seconds.push_back(Now() - begin);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

std::string NameOf(uint32_t party) { return absl::StrFormat("party-%03d", party); }

// One attempt with the given parties, of which the last `gone` give no update.
class Attempt {
 public:
  explicit Attempt(uint32_t parties) : round_(At(), MaskRosterRule()) {
    for (uint32_t i = 0; i < parties; ++i) {
      keys_.push_back(SigningKey::FromSeed(std::string(32, static_cast<char>(i + 1))).value());
    }
    for (uint32_t i = 0; i < parties; ++i) {
      const MaskSecret secret =
          MaskSecret::FromBytes(std::string(32, 's'))->Derive("bench", NameOf(i));
      parties_.emplace_back(At(), NameOf(i), &keys_[i], MaskRosterRule(), KnownSigningKeys(),
                            secret);
    }
  }

  void Begin() {
    for (uint32_t i = 0; i < parties_.size(); ++i) {
      CHECK_OK(round_.OnKeys(NameOf(i), parties_[i].keys()));
      up_ += parties_[i].keys().ByteSizeLong();
    }
    const v1::MaskRoster roster = round_.FreezeRoster().value();
    for (uint32_t i = 0; i < parties_.size(); ++i) {
      const v1::MaskShares shares = parties_[i].OnRoster(roster).value();
      CHECK_OK(round_.OnShares(NameOf(i), shares));
      down_ += roster.ByteSizeLong();
      up_ += shares.ByteSizeLong();
    }
    const auto deliveries = round_.FreezeMasking().value();
    for (uint32_t i = 0; i < parties_.size(); ++i) {
      CHECK_OK(parties_[i].OnDelivery(deliveries.at(NameOf(i))));
      down_ += deliveries.at(NameOf(i)).ByteSizeLong();
    }
  }

  std::vector<LeftMask> End(uint32_t gone) {
    std::set<std::string> complete;
    const auto here = static_cast<uint32_t>(parties_.size()) - gone;
    for (uint32_t i = 0; i < here; ++i) complete.insert(NameOf(i));
    const v1::MaskFrozen frozen = round_.FreezeContributors(complete).value();
    for (uint32_t i = 0; i < here; ++i) {
      const v1::MaskAgreed agreed = parties_[i].OnFrozen(frozen).value();
      CHECK_OK(round_.OnAgreed(NameOf(i), agreed));
      down_ += frozen.ByteSizeLong();
      up_ += agreed.ByteSizeLong();
    }
    const v1::UnmaskRequest request = round_.FreezeConsent().value();
    for (uint32_t i = 0; i < here; ++i) {
      const v1::UnmaskShares shares = parties_[i].OnRequest(request).value();
      CHECK_OK(round_.OnUnmaskShares(NameOf(i), shares));
      down_ += request.ByteSizeLong();
      up_ += shares.ByteSizeLong();
    }
    const v1::Unmasking unmasking = round_.Finish().value();
    down_ += here * unmasking.ByteSizeLong();
    return LeftMasks(round_.roster(), unmasking).value();
  }

  const MaskParty& party() const { return parties_[0]; }
  size_t up() const { return up_; }
  size_t down() const { return down_; }

 private:
  static v1::MaskAttempt At() {
    v1::MaskAttempt attempt;
    attempt.set_run_id("benchmark");
    attempt.set_version(1);
    attempt.set_attempt(1);
    return attempt;
  }

  std::vector<SigningKey> keys_;
  std::vector<MaskParty> parties_;
  MaskRound round_;
  size_t up_ = 0;
  size_t down_ = 0;
};

void ShowWork(size_t elements, uint32_t parties, int repeats) {
  std::vector<float> values(elements);
  for (size_t i = 0; i < elements; ++i) values[i] = std::sin(static_cast<float>(i % 6283) * 0.001F);
  std::vector<uint32_t> codes(elements);
  std::vector<uint32_t> sum(elements);
  for (const uint32_t bytes : {2U, 4U}) {
    const RingForm ring{bytes, parties};
    const RingSteps steps = RingStepsAfter(ring, values, 1.0F);
    const uint32_t gone = parties - MaskThreshold(parties, 0);
    Attempt whole(parties);
    whole.Begin();
    const double encode = MedianSeconds(repeats, [&] {
      CHECK_OK(EncodeRing(ring, steps, values, 0.5F, Rounding(), absl::MakeSpan(codes)).status());
    });
    const double mask = MedianSeconds(
        repeats, [&] { CHECK_OK(whole.party().Mask(ring, 0, absl::MakeSpan(codes))); });
    const double add =
        MedianSeconds(repeats, [&] { AddRing(ring, codes, absl::MakeSpan(sum)); }) * parties;
    const std::vector<LeftMask> of_all = whole.End(0);
    Attempt some(parties);
    some.Begin();
    const std::vector<LeftMask> of_some = some.End(gone);
    const double unmask =
        MedianSeconds(repeats, [&] { RemoveMasks(ring, of_all, 0, absl::MakeSpan(sum)); });
    const double unmask_gone =
        MedianSeconds(repeats, [&] { RemoveMasks(ring, of_some, 0, absl::MakeSpan(sum)); });
    const double million = 1e3 / (static_cast<double>(elements) / 1e6);  // ms a million values
    std::printf(
        "%d bits: %d bytes a value each way; ms a million values: codes %.2f, masks of a "
        "party %.2f, sum of %d %.2f, unmasking %.2f (%d masks), with %d gone %.2f (%d)\n",
        8 * bytes, bytes, encode * million, mask * million, parties, add * million,
        unmask * million, static_cast<int>(of_all.size()), gone, unmask_gone * million,
        static_cast<int>(of_some.size()));
  }
}

void ShowHandshakes(int repeats) {
  for (const uint32_t parties : {8U, 32U, 100U}) {
    size_t up = 0;
    size_t down = 0;
    const double seconds = MedianSeconds(repeats, [&] {
      Attempt attempt(parties);
      attempt.Begin();
      attempt.End(0);
      up = attempt.up() / parties;
      down = attempt.down() / parties;
    });
    std::printf(
        "handshake of %d parties: %.2f ms of CPU a party, all sides included; a party "
        "sends %d bytes and gets %d\n",
        parties, seconds * 1e3 / parties, static_cast<int>(up), static_cast<int>(down));
  }
}

}  // namespace
}  // namespace atolld

int main(int count, char** arguments) {
  uint64_t given[3] = {4194304, 8, 5};
  for (int i = 1; i < count; ++i) {
    if (i > 3 || !absl::SimpleAtoi(arguments[i], &given[i - 1]) || given[i - 1] == 0) {
      std::fprintf(stderr, "masking_benchmark [ELEMENTS [PARTIES [REPEATS]]]\n");
      return 2;
    }
  }
  if (given[1] < 2 || given[1] > atolld::kMostMaskedParties) {
    std::fprintf(stderr, "masking_benchmark: 2 to %d parties\n",
                 static_cast<int>(atolld::kMostMaskedParties));
    return 2;
  }
  atolld::ShowWork(given[0], static_cast<uint32_t>(given[1]), static_cast<int>(given[2]));
  atolld::ShowHandshakes(static_cast<int>(given[2]));
  return 0;
}
