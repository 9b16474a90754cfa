#include "membership/run/admission.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/lora_slices.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "membership/experts/expert_parts.h"
#include "membership/history/digest.h"
#include "membership/history/fragment.h"
#include "membership/history/header.h"
#include "membership/history/lineage.h"
#include "membership/history/run_files.h"
#include "membership/history/signing_key.h"
#include "membership/history/state_buffers.h"
#include "membership/run/door.h"
#include "membership/run/release.h"
#include "membership/trust/contribution.h"

namespace atolld {
namespace {

std::string ShortHex(const std::string& digest) {
  return absl::BytesToHexString(absl::string_view(digest).substr(0, 8));
}

// Checks the fields of a Ready with an update that is not masked yet (MaskedAttempts checks the
// proof).
absl::Status CheckUnmaskedReady(const std::string& signing_key, const v1::Ready& ready) {
  if (signing_key.empty()) {
    return absl::InvalidArgumentError("a run with masks needs a signing key of each party");
  }
  if (ready.state_digest().size() != kDigestBytes) {
    return absl::InvalidArgumentError("the digest of its state is not 32 bytes");
  }
  if (!ready.contribution_root().empty() || !ready.signature().empty() ||
      ready.squared_norm_bits() != 0 || ready.squared_distance_bits() != 0) {
    return absl::InvalidArgumentError(
        "it tells of an update that is to be masked: in a run with masks no Ready names a root, a "
        "signature or a length");
  }
  return absl::OkStatus();
}

}  // namespace

v1::RunSpec WithoutFirstWorkers(v1::RunSpec spec) {
  spec.mutable_data()->clear_digest();
  spec.mutable_data()->clear_tokenizer_digest();
  spec.clear_files();
  if (spec.has_parent()) spec.mutable_parent()->clear_next_sample();
  return spec;
}

absl::Status CheckHello(const v1::RunSpec& spec, const v1::Hello& hello) {
  if (!IsValidId(hello.peer())) {
    return absl::InvalidArgumentError(absl::StrCat("a peer's id has ", kIdGrammar));
  }
  if (!hello.address().empty() && !IsDialableAddress(hello.address())) {
    return absl::InvalidArgumentError(
        absl::StrCat("peer ", hello.peer(), " gives the address \"", OneLine(hello.address(), 80),
                     "\"; it must be HOST:PORT or [IPV6]:PORT ([peer] advertise)"));
  }
  if (!hello.region().empty() && !IsValidId(hello.region())) {
    return absl::InvalidArgumentError(absl::StrCat("a region's name has ", kIdGrammar));
  }
  if (!hello.role().empty() && hello.role() != "peer" && hello.role() != kAggregatorRole) {
    return absl::InvalidArgumentError("role must be 'peer' or 'aggregator'");
  }
  if (!hello.signing_key().empty() && hello.signing_key().size() != kPublicKeyBytes) {
    return absl::InvalidArgumentError("signing_key must be 32 bytes");
  }
  if (hello.life() > kMostLives) {
    return absl::InvalidArgumentError(
        absl::StrCat("peer ", hello.peer(), " names life ", hello.life(), ", above ", kMostLives));
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
  if (spec.has_mode() && !KnowsModes(hello.software())) {
    return absl::FailedPreconditionError(
        absl::StrCat("peer ", hello.peer(), " runs release ", OneLine(hello.software(), 40),
                     ", which knows no modes; the run is in mode '", spec.mode().kind(),
                     "'; install a newer release there"));
  }
  return absl::OkStatus();
}

absl::Status CheckWorker(const v1::Genesis& genesis, const v1::WorkerReady& worker) {
  RETURN_IF_ERROR(CheckSameTensors({genesis.manifest(), "the run's model"},
                                   {worker.manifest(), "the worker's model"}));
  const v1::ModelSpec& model = genesis.spec().model();
  RETURN_IF_ERROR(CheckFirstRanks(worker.lora_rank(), model.lora_rank(), model.lora_slice(),
                                  "[worker] lora_rank"));
  if (genesis.spec().data().private_()) return absl::OkStatus();
  if (genesis.spec().data().digest() != worker.data_digest()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the worker's data is another: digest ", ShortHex(worker.data_digest()),
                     "..., the run's is ", ShortHex(genesis.spec().data().digest()), "..."));
  }
  return absl::OkStatus();
}

absl::Status CheckInitialState(const v1::RunSpec& spec, const v1::WorkerReady* worker,
                               const v1::Genesis& genesis) {
  const absl::Status manifest = CheckManifest(genesis.manifest());
  if (!manifest.ok())
    return absl::InvalidArgumentError(absl::StrCat("initial state: ", manifest.message()));
  if (const absl::Status fragments = CheckFragments(genesis.spec(), genesis.manifest());
      !fragments.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("initial state: ", fragments.message()));
  }
  if (genesis.state_digest().size() != kDigestBytes) {
    return absl::InvalidArgumentError("initial state: its digest is not 32 bytes");
  }
  const bool is_private = genesis.spec().data().private_();
  if (genesis.spec().data().digest().size() != (is_private ? 0 : kDigestBytes)) {
    return absl::InvalidArgumentError(is_private
                                          ? "initial state: it has a digest of data that is private"
                                          : "initial state: the data's digest is not 32 bytes");
  }
  if (const absl::Status files = CheckRunFiles(genesis.spec()); !files.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("initial state: ", files.message()));
  }
  // The texts are compared only within this process: both were parsed, and are written by the same
  // code.
  if (WithoutFirstWorkers(genesis.spec()).SerializeAsString() !=
      WithoutFirstWorkers(spec).SerializeAsString()) {
    return absl::InvalidArgumentError("initial state: it was made for another run");
  }
  if (worker != nullptr) {
    const absl::Status fits = CheckWorker(genesis, *worker);
    if (!fits.ok())
      return absl::InvalidArgumentError(absl::StrCat("initial state: ", fits.message()));
  }
  return absl::OkStatus();
}

SizeTerms SizeTermsOf(const v1::Genesis& genesis, uint64_t peers) {
  SizeTerms terms;
  terms.parameters = genesis.manifest().elements();
  terms.exchanged = MostEntryElements(genesis.spec(), genesis.manifest());
  terms.chunk_elements = genesis.spec().exchange().chunk_elements();
  terms.peers = peers;
  terms.manifest_bytes = genesis.manifest().ByteSizeLong();
  const auto parts = DivideIntoExperts(genesis.spec().experts(), genesis.manifest());
  if (parts.ok()) terms.experts = parts->experts();  // otherwise the run has none
  const absl::StatusOr<std::vector<std::string>> buffers = StateBuffers(genesis.spec());
  if (buffers.ok()) terms.buffers = 1 + buffers->size();
  return terms;
}

absl::Status CheckFits(const v1::Genesis& genesis, uint32_t peers) {
  return Annotate(CheckMessageSizes(SizeTermsOf(genesis, peers)), "initial state");
}

absl::Status CheckReady(const v1::RunSpec& spec, const std::string& peer,
                        const std::string& signing_key, const v1::Ready& ready) {
  if (ready.tokens() == 0 || ready.steps() == 0)
    return absl::InvalidArgumentError("an update of no tokens");
  if (spec.privacy().masked()) return CheckUnmaskedReady(signing_key, ready);
  if (ready.contribution_root().size() != kDigestBytes ||
      ready.state_digest().size() != kDigestBytes) {
    return absl::InvalidArgumentError("a digest of its update is not 32 bytes");
  }
  if (signing_key.empty() && spec.exchange().audit_share_bits() == 0) return absl::OkStatus();
  return CheckContributionProof(spec.run_id(), ready.version(),
                                {peer, ready.contribution_root(), signing_key, ready.signature()});
}

}  // namespace atolld
