#include "tests/sim/privacy_law.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

constexpr double kRate = 0.2;  // of the clip, a round
// A clip moves by at most a tenth per round. A clip whose Train belongs to a former life of the
// coordinator may be counted with the previous or the next one.
constexpr double kClipSlack = 0.25;
constexpr double kMostDraw = 8.6;  // deviations of any draw of noise
constexpr size_t kNewest = 6;      // clips that the next one may follow, after a restart

constexpr double kEpsilonSlack = 0.01;

// Epsilon of rounds with noises s in which everybody is, where `spent` is the sum of 1 / (2 s^2):
// the least, over orders a, of what Renyi differential privacy gives (arXiv:2004.00010, prop. 12).
double EpsilonOfSpent(double spent, double delta) {
  double least = std::numeric_limits<double>::infinity();
  for (double a = 1.1; a < 1100; a *= 1.02) {
    least = std::min(least, a * spent + std::log1p(-1 / a) - std::log(delta * a) / (a - 1));
  }
  return least;
}

double SpentOfEpsilon(double epsilon, double delta) {
  double least = 0;
  double most = std::max(1.0, epsilon);
  for (int i = 0; i < 100 && least < most * (1 - 1e-9); ++i) {
    const double middle = (least + most) / 2;
    (EpsilonOfSpent(middle, delta) < epsilon ? least : most) = middle;
  }
  return least;
}

double ClipOfBits(uint32_t bits) { return double{absl::bit_cast<float>(bits)}; }

}  // namespace

PrivacyLaw::PrivacyLaw(Terms terms) : terms_(std::move(terms)) { newest_ = {terms_.clip}; }

void PrivacyLaw::OnTrain(const v1::Train& train) {
  if (terms_.clip <= 0) return;
  const double clip = ClipOfBits(train.clip_bits());
  told_[train.number()] = clip;
  NoteClip(clip);
}

void PrivacyLaw::NoteClip(double clip) {
  if (std::find(newest_.begin(), newest_.end(), clip) != newest_.end()) return;
  newest_.push_back(clip);
  if (newest_.size() > kNewest) newest_.pop_front();
}

void PrivacyLaw::OnReady(const std::string& peer, const v1::Ready& ready) {
  if (terms_.clip > 0) readies_[ready.version()][peer].push_back(ready);
}

bool PrivacyLaw::Heard(const v1::EntryHeader& header) const {
  const auto version = readies_.find(header.version());
  if (version == readies_.end()) return header.contributors().empty();
  return std::all_of(
      header.contributors().begin(), header.contributors().end(), [&](const v1::Contributor& one) {
        const auto said = version->second.find(one.peer());
        return said != version->second.end() && told_.count(said->second.back().train_number()) > 0;
      });
}

// If all were told one clip, it does not matter with which one of a former life the round is
// counted.
bool PrivacyLaw::OneClip(const v1::EntryHeader& header) const {
  std::set<double> clips;
  for (const v1::Contributor& one : header.contributors()) {
    const v1::Ready& ready = readies_.at(header.version()).at(one.peer()).back();
    clips.insert(told_.at(ready.train_number()));
  }
  return clips.size() <= 1;
}

double PrivacyLaw::NoiseOf(const v1::EntryHeader& header, const std::string* bitmap) const {
  double squares = 0, largest = 0;
  for (int i = 0; i < header.contributors_size(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (bitmap != nullptr && (static_cast<unsigned char>((*bitmap)[at / 8]) >> (at % 8) & 1) == 0) {
      continue;
    }
    const v1::Contributor& one = header.contributors(i);
    const double scale = one.scale_bits() == 0 ? 1 : ClipOfBits(one.scale_bits());
    const uint64_t train = readies_.at(header.version()).at(one.peer()).back().train_number();
    const double share = ClipOfBits(one.weight_bits()) * scale * told_.at(train);
    squares += share * share;
    largest = std::max(largest, share);
  }
  if (largest <= 0) return std::numeric_limits<double>::infinity();
  return terms_.noise * std::sqrt(squares / terms_.parties) / largest;
}

PrivacyLaw::Range PrivacyLaw::ShareOf(const v1::EntryHeader& header) const {
  const double most = 0.5 + kMostDraw * std::sqrt(terms_.parties) / 20;
  Range sum;
  for (const v1::Contributor& one : header.contributors()) {
    Range said{most, -most};
    for (const v1::Ready& ready : readies_.at(header.version()).at(one.peer())) {
      said.least = std::min(said.least, ready.within());
      said.most = std::max(said.most, ready.within());
    }
    if (terms_.liars.count(one.peer()) > 0) said = {-most, most};
    sum.least += said.least;
    sum.most += said.most;
  }
  const auto share = [&](double within) {
    return std::min(1.0, std::max(0.0, within / header.contributors_size() + 0.5));
  };
  return {share(sum.least), share(sum.most)};
}

// A coordinator may count more where it has lost sight of an entry.
std::string PrivacyLaw::CheckSpent(const v1::RoundRecord& record) {
  if (record.noise() <= 0 || record.version() <= counted_) return "";
  spent_ += 1 / (2 * record.noise() * record.noise());
  counted_ = record.version();
  const double least = EpsilonOfSpent(spent_, terms_.delta);
  if (record.epsilon() < least * (1 - kEpsilonSlack)) {
    return absl::StrCat("with version ", record.version(), " epsilon is said to be ",
                        record.epsilon(), "; by the noise of all rounds it is ", least);
  }
  spent_ = std::max(spent_, SpentOfEpsilon(record.epsilon(), terms_.delta) * (1 - kEpsilonSlack));
  return "";
}

std::string PrivacyLaw::OnRecord(const v1::EntryHeader& header, const v1::RoundRecord& record) {
  if (terms_.clip > 0) {
    const std::string wrong = CheckSpent(record);
    if (!wrong.empty()) return wrong;
  }
  // One that was adopted has no clip: it counts as if the fewest had come.
  if (terms_.clip <= 0 || record.clip() <= 0 || !Heard(header)) return "";
  double noise = NoiseOf(header, nullptr);
  for (const v1::ContributorSet& set : header.records().sets()) {
    noise = std::min(noise, NoiseOf(header, &set.contributors()));
  }
  noise = std::min(noise, terms_.noise * std::sqrt(header.contributors_size() / terms_.parties));
  const bool wrong =
      record.noise() < noise / (1 + kClipSlack) || record.noise() > noise * (1 + kClipSlack);
  if (wrong && OneClip(header)) {
    return absl::StrCat("version ", header.version(), " is counted with noise ", record.noise(),
                        "; by the clips that were told it has ", noise);
  }
  const Range share = ShareOf(header);
  for (const double before : newest_) {
    const double least = before * std::exp(-kRate * (share.most - terms_.quantile));
    const double most = before * std::exp(-kRate * (share.least - terms_.quantile));
    if (record.clip() >= least * (1 - 1e-6) && record.clip() <= most * (1 + 1e-6)) {
      readies_.erase(readies_.begin(), readies_.upper_bound(header.version()));
      NoteClip(record.clip());
      return "";
    }
  }
  return absl::StrCat("after version ", header.version(), " the clip is ", record.clip(),
                      ", which no count of short updates makes of ", newest_.back());
}

}  // namespace atolld
