#include "membership/masking/false_shares.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/words.h"
#include "membership/masking/byte_field.h"

namespace atolld {
namespace {

using Polynomials = std::vector<Polynomial>;  // one for each byte of a secret

std::vector<uint8_t> PlacesOf(absl::Span<const SecretShare> shares) {
  std::vector<uint8_t> places;
  for (const SecretShare& share : shares) places.push_back(static_cast<uint8_t>(share.place));
  return places;
}

std::vector<uint8_t> Bytes(absl::Span<const SecretShare> shares, size_t at) {
  std::vector<uint8_t> bytes;
  for (const SecretShare& share : shares) bytes.push_back(share.value.data()[at]);
  return bytes;
}

FoundSecret On(const Polynomials& polynomials, absl::Span<const SecretShare> shares) {
  FoundSecret found;
  for (size_t b = 0; b < kMaskSecretBytes; ++b) {
    found.secret.data()[b] = ValueAt(polynomials[b], 0);
  }
  for (size_t i = 0; i < shares.size(); ++i) {
    const auto place = static_cast<uint8_t>(shares[i].place);
    bool right = true;
    for (size_t b = 0; right && b < kMaskSecretBytes; ++b) {
      right = ValueAt(polynomials[b], place) == shares[i].value.data()[b];
    }
    if (!right) found.false_shares.push_back(i);
  }
  return found;
}

// Builds the result from these shares, which are known to be right.
FoundSecret By(absl::Span<const SecretShare> right, absl::Span<const SecretShare> shares) {
  const Interpolation places(PlacesOf(right));
  Polynomials polynomials;
  for (size_t b = 0; b < kMaskSecretBytes; ++b) {
    polynomials.push_back(places.Through(Bytes(right, b)));
  }
  return On(polynomials, shares);
}

std::optional<FoundSecret> Decode(absl::Span<const SecretShare> shares, uint32_t threshold) {
  const Interpolation places(PlacesOf(shares));
  Polynomials polynomials(kMaskSecretBytes);
  for (size_t b = 0; b < kMaskSecretBytes; ++b) {
    if (!places.Decode(Bytes(shares, b), threshold, &polynomials[b])) return std::nullopt;
  }
  return On(polynomials, shares);
}

// Returns true if there are at most `most` ways to choose this many.
bool FewChoices(size_t from, size_t chosen, size_t most) {
  size_t choices = 1;
  for (size_t i = 1; i <= std::min(chosen, from - chosen); ++i) {
    choices = choices * (from - i + 1) / i;
    if (choices > most) return false;
  }
  return true;
}

// Pairs of holder and owner.
using Falsehoods = std::vector<std::pair<std::string, std::string>>;

std::vector<ShareSuspect> Blame(const Falsehoods& falsehoods,
                                const std::vector<std::string>& unknown, size_t secrets,
                                size_t holders) {
  std::map<std::string, size_t> held, given;
  for (const auto& [holder, owner] : falsehoods) {
    ++held[holder];
    ++given[owner];
  }
  std::map<std::string, ShareSuspect> suspects;
  const auto blame = [&](const std::string& peer, bool sure, std::string why) {
    ShareSuspect& suspect = suspects[peer];
    if (!suspect.peer.empty() && (suspect.sure || !sure)) return;
    suspect = ShareSuspect{peer, std::move(why), sure};
  };
  for (const auto& [holder, owner] : falsehoods) {
    if (holder == owner || held[holder] > given[owner]) {
      blame(holder, true,
            absl::StrCat("revealed false shares of ", held[holder], " of ", secrets, " secrets"));
    } else if (given[owner] > held[holder]) {
      blame(owner, true,
            absl::StrCat("gave false shares of its secret to ", given[owner], " of ", holders,
                         " parties"));
    }
  }
  for (const auto& [holder, owner] : falsehoods) {
    const auto known = [&](const std::string& peer) {
      const auto found = suspects.find(peer);
      return found != suspects.end() && found->second.sure;
    };
    if (known(holder) || known(owner)) continue;
    blame(holder, false,
          absl::StrCat("revealed a false share of the secret of ", owner,
                       ", or was given a false one"));
    blame(owner, false,
          absl::StrCat("gave a false share of its secret to ", holder, ", or that revealed it so"));
  }
  for (const std::string& owner : unknown) {
    blame(owner, false, "has a secret that no shares give back as it was announced");
  }
  std::vector<ShareSuspect> listed;
  for (auto& [peer, suspect] : suspects) listed.push_back(std::move(suspect));
  return listed;
}

}  // namespace

absl::StatusOr<FoundSecret> FindSecret(absl::Span<const SecretShare> shares, uint32_t threshold,
                                       const SecretCheck& check) {
  const absl::StatusOr<MaskSecret> first = CombineShares(shares, threshold);
  if (!first.ok()) return first.status();
  if (check(*first).ok()) return By(shares.first(threshold), shares);
  std::optional<FoundSecret> decoded = Decode(shares, threshold);
  if (decoded && check(decoded->secret).ok()) return *std::move(decoded);
  const absl::Status hidden = absl::FailedPreconditionError(
      absl::StrCat("of ", Counted(shares.size(), "share"), ", of which ", threshold,
                   " are needed, more are false than can be found"));
  if (!FewChoices(shares.size(), threshold, kMostChoices)) return hidden;
  std::vector<bool> chosen(shares.size());
  std::fill_n(chosen.begin(), threshold, true);
  do {
    std::vector<SecretShare> some;
    for (size_t i = 0; i < shares.size(); ++i) {
      if (chosen[i]) some.push_back(shares[i]);
    }
    const absl::StatusOr<MaskSecret> secret = CombineShares(some, threshold);
    if (secret.ok() && check(*secret).ok()) return By(some, shares);
  } while (std::prev_permutation(chosen.begin(), chosen.end()));
  return hidden;
}

SharesJudged JudgeShares(const std::vector<std::string>& holders,
                         absl::Span<const OpenedSecret> opened, uint32_t threshold) {
  SharesJudged judged;
  judged.secrets.resize(opened.size());
  Falsehoods falsehoods;
  // A holder that lied about one secret is asked last about the next, so that it is found at once.
  // The second turn, when all these holders are known, finds secrets that the first did not.
  std::vector<size_t> lies(holders.size());
  for (int turn = 0; turn < 2; ++turn) {
    for (size_t s = 0; s < opened.size(); ++s) {
      if (judged.secrets[s].has_value()) continue;
      std::vector<size_t> order(holders.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t a, size_t b) { return lies[a] < lies[b]; });
      std::vector<SecretShare> shares;
      for (const size_t i : order) shares.push_back(opened[s].shares[i]);
      const absl::StatusOr<FoundSecret> found = FindSecret(shares, threshold, opened[s].check);
      if (!found.ok()) continue;
      judged.secrets[s] = found->secret;
      for (const size_t i : found->false_shares) {
        ++lies[order[i]];
        falsehoods.emplace_back(holders[order[i]], opened[s].of);
      }
    }
  }
  std::vector<std::string> unknown;
  for (size_t s = 0; s < opened.size(); ++s) {
    if (!judged.secrets[s].has_value()) unknown.push_back(opened[s].of);
  }
  if (unknown.size() == opened.size()) return judged;  // too many lie to know which peers do
  judged.suspects = Blame(falsehoods, unknown, opened.size(), holders.size());
  return judged;
}

}  // namespace atolld
