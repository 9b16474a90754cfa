#include "membership/run/losses.h"

#include "absl/strings/str_cat.h"
#include "compression/base/number_words.h"
#include "compression/base/words.h"

namespace atolld {
namespace {

constexpr int kLossDecimals = 4;

}  // namespace

std::optional<double> EvaluatedLoss(const v1::EvaluationRecord& record) {
  if (record.tokens() == 0 && record.loss() == 0) return std::nullopt;
  return record.loss();
}

std::string LossUnit(const v1::RunSpec& spec) {
  const v1::DataSpec& data = spec.data();
  if (data.kind() == "arrays" || data.kind() == "external" || data.kind() == "none") return "";
  // Token files do not say what their tokens are; bytes have ids below 256.
  const uint32_t ids = spec.model().vocabulary();
  const bool bytes = data.kind() != "bin" && data.kind() != "npy" && data.width() == 0 &&
                     (ids == 0 || ids == 256) &&
                     (data.tokenizer().empty() || data.tokenizer() == "bytes") &&
                     data.tokenizer_digest().empty();
  return bytes ? "nats a byte" : "nats a token";
}

std::string LossText(double loss, absl::string_view unit) {
  return absl::StrCat(NumberText(loss, kLossDecimals), unit.empty() ? "" : " ", unit);
}

std::string OwnLossText(const v1::EvaluationRecord& record) {
  if (record.own_parties() == 0) return "";
  return absl::StrCat("; on the own data of ", Counted(record.own_parties(), "party", "parties"),
                      ": mean ", LossText(record.own_mean()), ", 10th percentile ",
                      LossText(record.own_tenth()), ", 90th ", LossText(record.own_ninetieth()));
}

}  // namespace atolld
