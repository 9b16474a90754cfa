#include "membership/history/header.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "absl/base/casts.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/bitmap.h"
#include "compression/base/names.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "membership/experts/expert_parts.h"
#include "membership/history/agreement.h"
#include "membership/history/fragment.h"
#include "membership/history/lineage.h"
#include "membership/history/mean_records.h"
#include "membership/history/payload.h"
#include "membership/history/run_codecs.h"
#include "membership/history/run_files.h"
#include "membership/history/run_mode.h"
#include "membership/history/spec_digest.h"
#include "membership/history/step_scalars.h"
#include "optimizer/control_variate.h"

namespace atolld {
namespace {

constexpr size_t kMaxNameBytes = 256;
constexpr int kMaxContributors = 65536;
constexpr uint32_t kMaxChunkElements = 524288;

// Checks that every sample is named once in the whole entry, with each contributor's ranges in
// ascending order.
absl::Status CheckSamples(const v1::EntryHeader& header) {
  std::map<uint64_t, uint64_t> spent;  // the end of each range, by its first sample
  for (const v1::Contributor& contributor : header.contributors()) {
    uint64_t after = 0;
    for (const v1::SampleRange& range : contributor.samples()) {
      const uint64_t end = range.first() + range.count();
      if (range.count() == 0 || end < range.first() || range.first() < after) {
        return absl::InvalidArgumentError(
            absl::StrCat("contributor ", contributor.peer(), ": its samples ", range.first(), " + ",
                         range.count(), " are empty or not in ascending order"));
      }
      after = end;
      const auto next = spent.lower_bound(range.first());
      const bool clear = (next == spent.end() || next->first >= end) &&
                         (next == spent.begin() || std::prev(next)->second <= range.first());
      if (!clear) {
        return absl::InvalidArgumentError(absl::StrCat("contributor ", contributor.peer(),
                                                       ": its samples from ", range.first(),
                                                       " are another contributor's too"));
      }
      spent[range.first()] = end;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckContributors(const v1::RunSpec& spec, const v1::EntryHeader& header) {
  if (header.contributors_size() == 0 || header.contributors_size() > kMaxContributors) {
    return absl::InvalidArgumentError(
        absl::StrCat(header.contributors_size(), " contributors, 1 to 65536 are allowed"));
  }
  std::set<absl::string_view> names;
  for (const v1::Contributor& contributor : header.contributors()) {
    if (contributor.peer().empty() || contributor.peer().size() > kMaxNameBytes) {
      return absl::InvalidArgumentError("a contributor's name has 1 to 256 bytes");
    }
    if (!names.insert(contributor.peer()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("contributor ", contributor.peer(), " is named twice"));
    }
    const float weight = absl::bit_cast<float>(contributor.weight_bits());
    if (!std::isfinite(weight) || !(weight > 0)) {
      return absl::InvalidArgumentError(absl::StrCat("contributor ", contributor.peer(),
                                                     ": its weight ", weight,
                                                     " is not above 0 and finite"));
    }
    const float scale =
        contributor.scale_bits() == 0 ? 1 : absl::bit_cast<float>(contributor.scale_bits());
    const float most = spec.federation().normalised() ? kLargestUpdateScale : 1;
    if (!(scale > 0 && scale <= most)) {
      return absl::InvalidArgumentError(absl::StrCat("contributor ", contributor.peer(),
                                                     ": its scale ", scale,
                                                     " is not above 0 and up to ", most));
    }
    if (contributor.age() > 0 && !CountsAges(spec)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "contributor ", contributor.peer(), ": it states an age, and the run counts no ages"));
    }
    if (contributor.slow_codec() && spec.exchange().slow_codec().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("contributor ", contributor.peer(),
                       ": its update has a slow codec, and the run has none"));
    }
    if (spec.data().private_() && contributor.samples_size() > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "contributor ", contributor.peer(), ": it names samples, and the run's data is private"));
    }
  }
  return CheckSamples(header);
}

absl::Status CheckScalars(const v1::EntryHeader& header) {
  absl::string_view last;
  for (const v1::Scalar& scalar : header.scalars()) {
    if (scalar.name() <= last || scalar.name().size() > kMaxNameBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "scalar \"", scalar.name(), "\" is empty, too long or not in ascending order"));
    }
    last = scalar.name();
    if (!std::isfinite(absl::bit_cast<float>(scalar.bits()))) {
      return absl::InvalidArgumentError(absl::StrCat("scalar ", scalar.name(), " is not finite"));
    }
  }
  return absl::OkStatus();
}

// Checks the part of the vector that the header covers: all of it, or the fragment whose turn it
// is.
absl::Status CheckCovers(const v1::RunSpec& spec, const Fragments& divided,
                         const v1::EntryHeader& header) {
  const uint32_t fragments = FragmentsOf(spec);
  const uint32_t fragment = FragmentOf(spec, header.version());
  const bool one = fragments == 1 && header.fragment() == 0 && header.fragments() == 0;
  if (!one &&
      (fragments == 1 || header.fragments() != fragments || header.fragment() != fragment)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it covers fragment ", header.fragment(), " of ", header.fragments(), ", its turn is ",
        fragments == 1 ? "of all values" : absl::StrCat("fragment ", fragment, " of ", fragments)));
  }
  const uint64_t elements = divided.Of(header.version()).elements();
  if (header.range_offset() == 0 && header.range_elements() == elements) return absl::OkStatus();
  if (fragments > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it covers ", header.range_elements(), " values from ", header.range_offset(),
        " on, fragment ", fragment, " of ", fragments, " has ", elements, ", counted from 0 on"));
  }
  return absl::InvalidArgumentError(absl::StrCat("it covers values ", header.range_offset(), " to ",
                                                 header.range_offset() + header.range_elements(),
                                                 ", an entry covers all ", elements));
}

// Checks the values that the run fixed once and a header only repeats.
absl::Status CheckAgainstRun(const v1::RunSpec& spec, const Fragments& divided,
                             const v1::EntryHeader& header) {
  RETURN_IF_ERROR(CheckCovers(spec, divided, header));
  if (!MayBeBase(spec, header.version(), header.base_version()) || header.apply_step() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("its base is version ", header.base_version(), " at inner step ",
                     header.apply_step(), ", it must be the version before it, at 0",
                     MissesAnEntry(spec) ? ", or the one before that" : ""));
  }
  if (header.outer_rule() != spec.outer().rule()) {
    return absl::InvalidArgumentError(absl::StrCat("its outer rule is ", header.outer_rule(),
                                                   ", the run's is ", spec.outer().rule()));
  }
  ASSIGN_OR_RETURN(const LevelCodecs codecs, CodecsOf(spec.exchange()));
  const absl::string_view codec = codecs.means.codec->name();
  if (header.codec() != codec) {
    return absl::InvalidArgumentError(
        absl::StrCat("its codec is ", header.codec(), ", the run's is ", codec));
  }
  ASSIGN_OR_RETURN(const AggregationRule rule, RuleOf(spec.exchange()));
  if (header.aggregation() != spec.exchange().aggregation() ||
      header.faulty() != spec.exchange().faulty() ||
      header.clipping_steps() > (rule.has_centre() ? 1 : 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its updates were made one by ", header.aggregation(), " with faulty = ", header.faulty(),
        " in ", Counted(header.clipping_steps(), "step"), ", the run's by ",
        spec.exchange().aggregation(), " with ", spec.exchange().faulty()));
  }
  if (header.chunk_elements() != spec.exchange().chunk_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("its chunks have ", header.chunk_elements(),
                                                   " values, the run's have ",
                                                   spec.exchange().chunk_elements()));
  }
  return absl::OkStatus();
}

// Checks that a header steps the common control variate if the run has one, and only then.
absl::Status CheckControl(const v1::RunSpec& spec, const v1::EntryHeader& header) {
  const absl::Status made = ControlVariate::Make(ScalarsOf(header)).status();
  if (spec.inner().control_variates()) {
    return made.ok() ? made : absl::InvalidArgumentError(made.message());
  }
  if (absl::IsNotFound(made)) return absl::OkStatus();
  return absl::InvalidArgumentError("it steps a control variate, and the run has none");
}

// Checks that contributors say which of the experts they own.
absl::Status CheckOwned(const v1::EntryHeader& header, uint32_t experts) {
  for (const v1::Contributor& contributor : header.contributors()) {
    if (ValidOwned(contributor.owned(), experts)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "what ", contributor.peer(), " owns is not a bitmap of ", Counted(experts, "expert")));
  }
  return absl::OkStatus();
}

absl::Status CheckContents(const v1::Genesis& genesis, const v1::EntryHeader& header) {
  ASSIGN_OR_RETURN(const Fragments divided, Fragments::Make(genesis.spec(), genesis.manifest()));
  RETURN_IF_ERROR(CheckAgainstRun(genesis.spec(), divided, header));
  RETURN_IF_ERROR(CheckContributors(genesis.spec(), header));
  const ChunkGrid grid = divided.Grid(header.version(), header.chunk_elements());
  RETURN_IF_ERROR(CheckOwned(header, grid.experts()));
  std::vector<absl::string_view> owned;
  for (const v1::Contributor& contributor : header.contributors()) {
    owned.push_back(contributor.owned());
  }
  RETURN_IF_ERROR(CheckMeanRecords(header.records(), grid, owned.size(), owned));
  RETURN_IF_ERROR(CheckScalars(header));
  RETURN_IF_ERROR(CheckControl(genesis.spec(), header));
  RETURN_IF_ERROR(CheckStepScalars(genesis.spec(), header));
  RETURN_IF_ERROR(
      Annotate(DigestFromBytes(header.payload_digest()).status(), "the payload's digest"));
  return Annotate(DigestFromBytes(header.previous_state_digest()).status(),
                  "the previous state's digest");
}

constexpr int kMostTensors = 65536;
constexpr int kMostDimensions = 8;
constexpr size_t kLongestTensorName = 256;

// The values of 4 TB in fp32: far more than any model has, and far less than overflows when
// multiplied by 4.
constexpr uint64_t kMostElements = uint64_t{1} << 40;

void AddSamples(const v1::EntryHeader& header, DigestBuilder& builder) {
  const bool any = std::any_of(header.contributors().begin(), header.contributors().end(),
                               [](const v1::Contributor& one) { return one.samples_size() > 0; });
  if (!any) return;
  builder.Bytes("samples");
  for (const v1::Contributor& contributor : header.contributors()) {
    builder.U64(static_cast<uint64_t>(contributor.samples_size()));
    for (const v1::SampleRange& range : contributor.samples()) {
      builder.U64(range.first()).U64(range.count());
    }
  }
}

void AddRecords(const v1::MeanRecords& records, DigestBuilder& builder) {
  builder.U64(static_cast<uint64_t>(records.sets_size()));
  for (const v1::ContributorSet& set : records.sets()) {
    builder.Bytes(set.contributors()).U64(static_cast<uint64_t>(set.partials_size()));
    for (const std::string& partial : set.partials()) builder.Bytes(partial);
  }
  builder.U64(static_cast<uint64_t>(records.shards_size()));
  for (const v1::ShardRecord& shard : records.shards()) {
    builder.U64(shard.first_chunk()).U64(shard.chunks()).Bytes(shard.reducer());
    builder.U64(static_cast<uint64_t>(shard.runs_size()));
    for (const v1::ChunkRun& run : shard.runs()) builder.U64(run.chunks()).U64(run.set());
  }
}

// Adds how the entry's updates became one, and what was audited.
void AddJudgement(const v1::EntryHeader& header, DigestBuilder& builder) {
  const bool scaled = std::any_of(header.contributors().begin(), header.contributors().end(),
                                  [](const v1::Contributor& one) { return one.scale_bits() != 0; });
  if (!scaled && header.aggregation().empty() && header.faulty() == 0 &&
      header.clipping_steps() == 0 && header.audit_nonce().empty()) {
    return;
  }
  builder.Bytes("judgement").Bytes(header.aggregation()).U64(header.faulty());
  builder.U64(header.clipping_steps()).Bytes(header.audit_nonce());
  for (const v1::Contributor& contributor : header.contributors()) {
    builder.U64(contributor.scale_bits());
  }
}

// Adds the number of parties behind each update, if any update has several.
void AddParties(const v1::EntryHeader& header, DigestBuilder& builder) {
  const bool any = std::any_of(header.contributors().begin(), header.contributors().end(),
                               [](const v1::Contributor& one) { return one.parties() != 0; });
  if (!any) return;
  builder.Bytes("parties");
  for (const v1::Contributor& contributor : header.contributors()) {
    builder.U64(contributor.parties());
  }
}

void AddAges(const v1::EntryHeader& header, DigestBuilder& builder) {
  const bool any = std::any_of(header.contributors().begin(), header.contributors().end(),
                               [](const v1::Contributor& one) { return one.age() != 0; });
  if (!any) return;
  builder.Bytes("ages");
  for (const v1::Contributor& contributor : header.contributors()) {
    builder.U64(contributor.age());
  }
}

void AddSlowCodecs(const v1::EntryHeader& header, DigestBuilder& builder) {
  const bool any = std::any_of(header.contributors().begin(), header.contributors().end(),
                               [](const v1::Contributor& one) { return one.slow_codec(); });
  if (!any) return;
  builder.Bytes("slow_codecs");
  for (const v1::Contributor& contributor : header.contributors()) {
    builder.U64(contributor.slow_codec() ? 1 : 0);
  }
}

void AddOwned(const v1::EntryHeader& header, DigestBuilder& builder) {
  const bool any = std::any_of(header.contributors().begin(), header.contributors().end(),
                               [](const v1::Contributor& one) { return !one.owned().empty(); });
  if (!any) return;
  builder.Bytes("experts");
  for (const v1::Contributor& contributor : header.contributors()) {
    builder.Bytes(contributor.owned());
  }
}

constexpr char kHeaderDomain[] = "atoll.header";
constexpr char kSealDomain[] = "atoll.seal";
constexpr char kEpochDomain[] = "atoll.epoch";
constexpr char kGenesisDomain[] = "atoll.genesis";

std::string EpochMessage(uint64_t epoch, absl::string_view life) {
  std::string message;
  for (int shift = 0; shift < 64; shift += 8) {
    message.push_back(static_cast<char>(epoch >> shift & 0xff));
  }
  return message.append(life.data(), life.size());
}

absl::Status Check(const v1::RunSpec& spec, const char* domain, const Digest& digest,
                   const std::string& signature, const std::string& what) {
  const std::string& key = spec.history_key();
  if (Planted(PlantedBug::kSignatureNotChecked)) return absl::OkStatus();
  if (key.empty()) {
    if (signature.empty()) return absl::OkStatus();
    return absl::PermissionDeniedError(
        absl::StrCat(what, ": it is signed, but the history of run ", spec.run_id(), " is not"));
  }
  if (signature.empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat(what, ": it is not signed, and the history of run ", spec.run_id(), " is"));
  }
  if (VerifySignature(key, domain, ToBytes(digest), signature)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(what, ": its signature is not by the history key of run ", spec.run_id()));
}

}  // namespace

absl::Status CheckGenesis(const v1::Genesis& genesis) {
  const v1::RunSpec& spec = genesis.spec();
  if (!IsValidId(spec.run_id()))
    return absl::InvalidArgumentError("a run id is 1 to 64 characters of a-z, 0-9 and -");
  if (spec.numerics() != kNumerics) {
    return absl::InvalidArgumentError(absl::StrCat("the run uses numerics ", spec.numerics(),
                                                   ", this release speaks ", kNumerics));
  }
  RETURN_IF_ERROR(CheckManifest(genesis.manifest()));
  const uint32_t chunk = spec.exchange().chunk_elements();
  if (chunk == 0 || chunk > kMaxChunkElements ||
      genesis.manifest().elements() / chunk >= kMaxChunks) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunks of ", chunk, " values; 1 to ", kMaxChunkElements, " are allowed"));
  }
  ASSIGN_OR_RETURN(const LevelCodecs codecs, CodecsOf(spec.exchange()));
  if (spec.exchange().stochastic_rounding() && !codecs.updates.codec->has_stochastic_rounding() &&
      !codecs.means.codec->has_stochastic_rounding()) {
    return absl::InvalidArgumentError(absl::StrCat(codecs.name(), " has no stochastic rounding"));
  }
  if (!spec.exchange().slow_codec().empty() && spec.privacy().masked()) {
    return absl::InvalidArgumentError("masked updates have no codec, so none for slow lines");
  }
  RETURN_IF_ERROR(RuleOf(spec.exchange()).status());
  const uint32_t decay_bits = spec.exchange().feedback_decay_bits();
  if (const float decay = absl::bit_cast<float>(decay_bits);
      decay_bits != 0 && !(decay > 0.0f && decay <= 1.0f)) {
    return absl::InvalidArgumentError(
        absl::StrCat("error feedback's decay is ", decay, ", not above 0 and up to 1"));
  }
  RETURN_IF_ERROR(FindOuterRule(spec.outer().rule()).status());
  RETURN_IF_ERROR(CheckMode(spec));
  RETURN_IF_ERROR(CheckFragments(spec, genesis.manifest()));
  if (!spec.history_key().empty() && spec.history_key().size() != kPublicKeyBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a history key of ", spec.history_key().size(),
                                                   " bytes; it has ", kPublicKeyBytes));
  }
  if (!genesis.state_digest().empty()) {
    RETURN_IF_ERROR(Annotate(DigestFromBytes(genesis.state_digest()).status(), "state digest"));
  }
  RETURN_IF_ERROR(CheckLineage(spec));
  return CheckRunFiles(spec);
}

OuterScalars ScalarsOf(const v1::EntryHeader& header) {
  OuterScalars scalars;
  for (const v1::Scalar& scalar : header.scalars())
    scalars[scalar.name()] = absl::bit_cast<float>(scalar.bits());
  return scalars;
}

OuterSettings OuterSettingsOf(const v1::OuterSpec& outer) {
  OuterSettings settings;
  settings.learning_rate = absl::bit_cast<float>(outer.learning_rate_bits());
  settings.momentum = absl::bit_cast<float>(outer.momentum_bits());
  settings.beta2 = absl::bit_cast<float>(outer.beta2_bits());
  settings.adaptivity = absl::bit_cast<float>(outer.adaptivity_bits());
  return settings;
}

void SetScalars(const OuterScalars& scalars, v1::EntryHeader* header) {
  header->clear_scalars();
  for (const auto& [name, value] : scalars) {
    v1::Scalar* scalar = header->add_scalars();
    scalar->set_name(name);
    scalar->set_bits(absl::bit_cast<uint32_t>(value));
  }
}

absl::Status CheckHeader(const v1::Genesis& genesis, uint64_t previous_version,
                         const Digest& previous, const v1::EntryHeader& header) {
  const std::string context = absl::StrCat("entry ", header.version());
  if (header.run_id() != genesis.spec().run_id()) {
    return absl::FailedPreconditionError(absl::StrCat(
        context, ": it belongs to run ", header.run_id(), ", not to ", genesis.spec().run_id()));
  }
  if (header.version() != previous_version + 1) {
    return absl::FailedPreconditionError(
        absl::StrCat(context, ": it does not follow version ", previous_version));
  }
  if (header.version() > genesis.spec().rounds()) {
    return absl::FailedPreconditionError(
        absl::StrCat(context, ": the run ends at version ", genesis.spec().rounds()));
  }
  RETURN_IF_ERROR(Annotate(CheckContents(genesis, header), context));
  const absl::StatusOr<Digest> named = DigestFromBytes(header.previous_header_digest());
  if (!named.ok()) {
    return Annotate(named.status(), absl::StrCat(context, ": the previous header's digest"));
  }
  if (*named != previous) {
    return absl::FailedPreconditionError(
        absl::StrCat(context, ": the chain is broken: it follows header ", ToHex(*named),
                     ", version ", previous_version, " has ", ToHex(previous)));
  }
  return CheckSigned(genesis.spec(), header);
}

absl::Status CheckHeaderAlone(const v1::Genesis& genesis, const v1::EntryHeader& header) {
  const absl::StatusOr<Digest> previous = DigestFromBytes(header.previous_header_digest());
  if (!previous.ok()) {
    return Annotate(previous.status(),
                    absl::StrCat("entry ", header.version(), ": the previous header's digest"));
  }
  if (header.version() == 0) return absl::InvalidArgumentError("version 0 has no header");
  return CheckHeader(genesis, header.version() - 1, *previous, header);
}

std::string ShapeText(const v1::Tensor& tensor) {
  return absl::StrCat("[", absl::StrJoin(tensor.shape(), ", "), "]");
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
      return bad("its name must have 1 to 256 bytes");
    if (!names.insert(tensor.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two tensors are named ", absl::CEscape(tensor.name())));
    }
    if (tensor.shape_size() > kMostDimensions) {
      return bad(absl::StrCat(tensor.shape_size(), " dimensions, at most 8 are allowed"));
    }
    uint64_t size = 1;
    for (const uint64_t dimension : tensor.shape()) {
      if (dimension == 0) return bad(absl::StrCat("shape ", ShapeText(tensor), " has no values"));
      if (dimension > kMostElements / size)
        return bad(absl::StrCat("shape ", ShapeText(tensor), " has too many values"));
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

Digest HeaderDigest(const v1::EntryHeader& header) {
  DigestBuilder builder("atoll.header.2");
  builder.Bytes(header.run_id()).U64(header.version());
  builder.U64(header.range_offset()).U64(header.range_elements());
  builder.U64(header.base_version()).U64(header.apply_step());
  builder.U64(static_cast<uint64_t>(header.contributors_size()));
  for (const v1::Contributor& contributor : header.contributors()) {
    builder.Bytes(contributor.peer()).U64(contributor.weight_bits());
    builder.U64(contributor.steps()).U64(contributor.tokens());
  }
  AddRecords(header.records(), builder);
  builder.U64(static_cast<uint64_t>(header.scalars_size()));
  for (const v1::Scalar& scalar : header.scalars()) {
    builder.Bytes(scalar.name()).U64(scalar.bits());
  }
  builder.Bytes(header.outer_rule()).Bytes(header.codec()).U64(header.chunk_elements());
  builder.Bytes(header.payload_digest()).Bytes(header.previous_state_digest());
  builder.Bytes(header.previous_header_digest());
  AddSamples(header, builder);
  AddJudgement(header, builder);
  AddParties(header, builder);
  if (header.fragments() != 0 || header.fragment() != 0) {
    builder.Bytes("fragment").U64(header.fragment()).U64(header.fragments());
  }
  AddAges(header, builder);
  AddSlowCodecs(header, builder);
  AddOwned(header, builder);
  return builder.Finish();
}

Digest GenesisDigest(const v1::Genesis& genesis) {
  DigestBuilder builder("atoll.genesis.1");
  AddSpec(genesis.spec(), builder);
  builder.U64(static_cast<uint64_t>(genesis.manifest().tensors_size()));
  for (const v1::Tensor& tensor : genesis.manifest().tensors()) {
    builder.Bytes(tensor.name()).U64(static_cast<uint64_t>(tensor.shape_size()));
    for (const uint64_t size : tensor.shape()) builder.U64(size);
    builder.U64(tensor.offset());
  }
  builder.U64(genesis.manifest().elements());
  builder.Bytes(genesis.state_digest());
  AddRestOfSpec(genesis.spec(), builder);
  return builder.Finish();
}

Digest SealDigest(const v1::Seal& seal) {
  DigestBuilder builder("atoll.seal.1");
  builder.Bytes(seal.run_id()).U64(seal.version());
  return builder.Bytes(seal.state_digest()).Bytes(seal.header_digest()).Finish();
}

std::string SignHeader(const SigningKey& key, const v1::EntryHeader& header) {
  return key.Sign(kHeaderDomain, ToBytes(HeaderDigest(header)));
}

std::string SignSeal(const SigningKey& key, const v1::Seal& seal) {
  return key.Sign(kSealDomain, ToBytes(SealDigest(seal)));
}

std::string SignEpoch(const SigningKey& key, uint64_t epoch, absl::string_view life) {
  return key.Sign(kEpochDomain, EpochMessage(epoch, life));
}

bool CheckEpochSigned(const v1::RunSpec& spec, uint64_t epoch, absl::string_view life,
                      absl::string_view signature) {
  return VerifySignature(spec.history_key(), kEpochDomain, EpochMessage(epoch, life), signature);
}

std::string SignGenesis(const SigningKey& key, const v1::Genesis& genesis) {
  return key.Sign(kGenesisDomain, ToBytes(GenesisDigest(genesis)));
}

bool CheckGenesisSigned(const v1::Genesis& genesis, absl::string_view signature) {
  return VerifySignature(genesis.spec().history_key(), kGenesisDomain,
                         ToBytes(GenesisDigest(genesis)), signature);
}

absl::Status CheckSigned(const v1::RunSpec& spec, const v1::EntryHeader& header) {
  return Check(spec, kHeaderDomain, HeaderDigest(header), header.signature(),
               absl::StrCat("entry ", header.version()));
}

absl::Status CheckSigned(const v1::RunSpec& spec, const v1::Seal& seal) {
  return Check(spec, kSealDomain, SealDigest(seal), seal.signature(),
               absl::StrCat("seal of version ", seal.version()));
}

}  // namespace atolld
