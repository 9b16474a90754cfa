#include "membership/history/lineage.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

// Far more samples than any run has, and far fewer than would overflow when leases are added.
constexpr uint64_t kMostSamples = uint64_t{1} << 60;
constexpr uint64_t kMostVersions = uint64_t{1} << 32;  // the limit of RunSpec.rounds
constexpr size_t kShortDigestBytes = 6;

absl::Status CheckOne(const v1::Lineage& lineage) {
  if (!IsValidId(lineage.run_id())) {
    return absl::InvalidArgumentError("a run id is 1 to 64 characters of a-z, 0-9 and -");
  }
  if (lineage.version() > kMostVersions) {
    return absl::InvalidArgumentError(
        absl::StrCat("version ", lineage.version(), "; a run has at most 2^32"));
  }
  if (lineage.next_sample() > kMostSamples) {
    return absl::InvalidArgumentError(
        absl::StrCat("next_sample ", lineage.next_sample(), "; at most 2^60 is allowed"));
  }
  RETURN_IF_ERROR(Annotate(DigestFromBytes(lineage.state_digest()).status(), "state digest"));
  return Annotate(DigestFromBytes(lineage.header_digest()).status(), "header digest");
}

void AddOne(const v1::Lineage& lineage, DigestBuilder& builder) {
  builder.Bytes(lineage.run_id()).U64(lineage.version());
  builder.Bytes(lineage.state_digest()).Bytes(lineage.header_digest());
  builder.U64(lineage.steps()).U64(lineage.tokens()).U64(lineage.next_sample());
  builder.U64(lineage.buffers() ? 1 : 0);
}

std::string ShapeOf(const v1::Tensor& tensor) {
  return absl::StrCat("[", absl::StrJoin(tensor.shape(), ", "), "]");
}

}  // namespace

v1::Lineage LineageOf(const v1::Genesis& parent, const BranchPoint& point) {
  const v1::RunSpec& spec = parent.spec();
  v1::Lineage lineage;
  lineage.set_run_id(spec.run_id());
  lineage.set_version(point.version);
  lineage.set_state_digest(ToBytes(point.state_digest));
  lineage.set_header_digest(ToBytes(point.header_digest));
  lineage.set_steps(point.version * spec.inner().steps());
  lineage.set_tokens(point.tokens);
  lineage.set_next_sample(point.next_sample);
  lineage.set_buffers(point.buffers);
  if (!spec.has_parent()) return lineage;
  *lineage.add_earlier() = spec.parent();
  lineage.mutable_earlier(0)->clear_earlier();
  for (const v1::Lineage& older : spec.parent().earlier()) {
    if (lineage.earlier_size() == kMostAncestors) break;
    *lineage.add_earlier() = older;
  }
  return lineage;
}

absl::Status CheckLineage(const v1::RunSpec& spec) {
  if (!spec.has_parent()) return absl::OkStatus();
  RETURN_IF_ERROR(Annotate(CheckOne(spec.parent()), "parent"));
  if (spec.parent().earlier_size() > kMostAncestors) {
    return absl::InvalidArgumentError(absl::StrCat("parent: ", spec.parent().earlier_size(),
                                                   " earlier runs, at most 64 are allowed"));
  }
  for (int i = 0; i < spec.parent().earlier_size(); ++i) {
    const v1::Lineage& older = spec.parent().earlier(i);
    const std::string where = absl::StrCat("parent: earlier run ", i);
    RETURN_IF_ERROR(Annotate(CheckOne(older), where));
    if (!older.earlier().empty()) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": it has earlier runs of its own"));
    }
  }
  return absl::OkStatus();
}

void AddLineage(const v1::RunSpec& spec, DigestBuilder& builder) {
  if (!spec.has_parent()) return;
  builder.Bytes("parent");
  AddOne(spec.parent(), builder);
  builder.U64(static_cast<uint64_t>(spec.parent().earlier_size()));
  for (const v1::Lineage& older : spec.parent().earlier()) AddOne(older, builder);
}

std::string LineageText(const v1::Lineage& lineage) {
  return absl::StrCat(
      "version ", lineage.version(), " of run ", lineage.run_id(), " (state ",
      absl::BytesToHexString(
          absl::string_view(lineage.state_digest()).substr(0, kShortDigestBytes)),
      lineage.buffers() ? "), with its outer buffers" : "), outer buffers from zero");
}

absl::Status CheckSameTensors(const NamedManifest& ours, const NamedManifest& theirs) {
  const auto lacks = [](const NamedManifest& one, const NamedManifest& other, const auto& tensor) {
    return absl::FailedPreconditionError(
        absl::StrCat(one.name, " lacks tensor ", absl::CEscape(tensor.name()), " ", ShapeOf(tensor),
                     ", which ", other.name, " has"));
  };
  const v1::Manifest& a = ours.manifest;
  const v1::Manifest& b = theirs.manifest;
  for (int i = 0; i < std::max(a.tensors_size(), b.tensors_size()); ++i) {
    if (i >= b.tensors_size()) return lacks(theirs, ours, a.tensors(i));
    if (i >= a.tensors_size()) return lacks(ours, theirs, b.tensors(i));
    const v1::Tensor& mine = a.tensors(i);
    const v1::Tensor& other = b.tensors(i);
    if (mine.name() == other.name() && ShapeOf(mine) == ShapeOf(other) &&
        mine.offset() == other.offset()) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "tensor ", i, " is ", absl::CEscape(other.name()), " ", ShapeOf(other), " in ", theirs.name,
        ", ", absl::CEscape(mine.name()), " ", ShapeOf(mine), " in ", ours.name));
  }
  return absl::OkStatus();
}

}  // namespace atolld
