#include "membership/admission.h"

#include <algorithm>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "membership/signing_key.h"

namespace atolld {
namespace {

constexpr size_t kDigestBytes = 32;
constexpr int kMostTensors = 65536;
constexpr int kMostDimensions = 8;
constexpr size_t kLongestTensorName = 256;

// fp32 values of 4 TB: far above any model, far below what overflows when multiplied by 4.
constexpr uint64_t kMostElements = uint64_t{1} << 40;

std::string Shape(const v1::Tensor& tensor) {
  return absl::StrCat("[", absl::StrJoin(tensor.shape(), ", "), "]");
}

std::string Hex(const std::string& digest) {
  return absl::BytesToHexString(absl::string_view(digest).substr(0, 8));
}

v1::RunSpec WithoutDataDigest(v1::RunSpec spec) {
  spec.mutable_data()->clear_digest();
  spec.mutable_data()->clear_tokenizer_digest();
  return spec;
}

}  // namespace

bool ValidName(absl::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

absl::Status CheckHello(const v1::RunSpec& spec, const v1::Hello& hello) {
  if (!ValidName(hello.peer())) {
    return absl::InvalidArgumentError("peer id must be 1-64 characters of a-z, 0-9 and '-'");
  }
  if (hello.address().size() > 256)
    return absl::InvalidArgumentError("address is longer than 256 bytes");
  if (!hello.region().empty() && !ValidName(hello.region())) {
    return absl::InvalidArgumentError("region must be at most 64 characters of a-z, 0-9 and '-'");
  }
  if (!hello.role().empty() && hello.role() != "peer" && hello.role() != kAggregatorRole) {
    return absl::InvalidArgumentError("role must be 'peer' or 'aggregator'");
  }
  if (!hello.signing_key().empty() && hello.signing_key().size() != kPublicKeyBytes) {
    return absl::InvalidArgumentError("signing_key must be 32 bytes");
  }
  if (hello.role() == kAggregatorRole && hello.address().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("peer ", hello.peer(), " is an aggregator and cannot be dialled"));
  }
  if (!hello.run_id().empty() && hello.run_id() != spec.run_id()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "peer ", hello.peer(), " holds a replica of run ", absl::CEscape(hello.run_id()),
        "; this is run ", spec.run_id(), "; start it with an empty directory"));
  }
  if (hello.has_state() && hello.run_id().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("peer ", hello.peer(), " holds a state but names no run"));
  }
  if (hello.numerics() < spec.numerics()) {
    return absl::FailedPreconditionError(
        absl::StrCat("peer ", hello.peer(), " speaks numerics up to ", hello.numerics(),
                     "; the run needs ", spec.numerics(), "; install a newer release there"));
  }
  return absl::OkStatus();
}

absl::Status CheckManifest(const v1::Manifest& manifest) {
  if (manifest.tensors_size() == 0 || manifest.tensors_size() > kMostTensors) {
    return absl::InvalidArgumentError(absl::StrCat("the manifest has ", manifest.tensors_size(),
                                                   " tensors, 1 to 65536 are allowed"));
  }
  std::set<absl::string_view> names;
  uint64_t offset = 0;
  for (const v1::Tensor& tensor : manifest.tensors()) {
    const auto bad = [&](absl::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", absl::CEscape(tensor.name()), ": ", what));
    };
    if (tensor.name().empty() || tensor.name().size() > kLongestTensorName)
      return bad("its name has not 1 to 256 bytes");
    if (!names.insert(tensor.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two tensors are named ", absl::CEscape(tensor.name())));
    }
    if (tensor.shape_size() > kMostDimensions) {
      return bad(absl::StrCat(tensor.shape_size(), " dimensions, at most 8 are allowed"));
    }
    uint64_t size = 1;
    for (const uint64_t dimension : tensor.shape()) {
      if (dimension == 0) return bad(absl::StrCat("shape ", Shape(tensor), " has no values"));
      if (dimension > kMostElements / size)
        return bad(absl::StrCat("shape ", Shape(tensor), " has too many values"));
      size *= dimension;
    }
    if (tensor.offset() != offset) {
      return bad(absl::StrCat("its offset is ", tensor.offset(), ", the tensors before it end at ",
                              offset));
    }
    if (size > kMostElements - offset) return bad("with it the model has too many values");
    offset += size;
  }
  if (manifest.elements() != offset) {
    return absl::InvalidArgumentError(absl::StrCat("the manifest says ", manifest.elements(),
                                                   " values, its tensors have ", offset));
  }
  return absl::OkStatus();
}

absl::Status CheckWorker(const v1::Genesis& genesis, const v1::WorkerReady& worker) {
  const v1::Manifest& ours = genesis.manifest();
  const v1::Manifest& theirs = worker.manifest();
  for (int i = 0; i < std::max(ours.tensors_size(), theirs.tensors_size()); ++i) {
    if (i >= theirs.tensors_size()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the worker's model lacks tensor ", absl::CEscape(ours.tensors(i).name())));
    }
    if (i >= ours.tensors_size()) {
      return absl::FailedPreconditionError(absl::StrCat("the worker's model has tensor ",
                                                        absl::CEscape(theirs.tensors(i).name()),
                                                        ", which the run's does not"));
    }
    const v1::Tensor& a = ours.tensors(i);
    const v1::Tensor& b = theirs.tensors(i);
    if (a.name() != b.name() || Shape(a) != Shape(b) || a.offset() != b.offset()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "tensor ", i, " is ", absl::CEscape(b.name()), " ", Shape(b), " in the worker's model, ",
          absl::CEscape(a.name()), " ", Shape(a), " in the run's"));
    }
  }
  if (genesis.spec().data().digest() != worker.data_digest()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the worker's data is another: digest ", Hex(worker.data_digest()),
                     "..., the run's is ", Hex(genesis.spec().data().digest()), "..."));
  }
  return absl::OkStatus();
}

absl::Status CheckInitialState(const v1::RunSpec& spec, const v1::WorkerReady* worker,
                               const v1::Genesis& genesis) {
  const absl::Status manifest = CheckManifest(genesis.manifest());
  if (!manifest.ok())
    return absl::InvalidArgumentError(absl::StrCat("initial state: ", manifest.message()));
  if (genesis.state_digest().size() != kDigestBytes) {
    return absl::InvalidArgumentError("initial state: its digest is not 32 bytes");
  }
  if (genesis.spec().data().digest().size() != kDigestBytes) {
    return absl::InvalidArgumentError("initial state: the data's digest is not 32 bytes");
  }
  // Compared within this process alone: both were parsed and are written by the same code.
  if (WithoutDataDigest(genesis.spec()).SerializeAsString() !=
      WithoutDataDigest(spec).SerializeAsString()) {
    return absl::InvalidArgumentError("initial state: it was made for another run");
  }
  if (worker != nullptr) {
    const absl::Status fits = CheckWorker(genesis, *worker);
    if (!fits.ok())
      return absl::InvalidArgumentError(absl::StrCat("initial state: ", fits.message()));
  }
  return absl::OkStatus();
}

}  // namespace atolld
