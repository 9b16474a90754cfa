#include "membership/history/header.h"

#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "membership/history/bitmap.h"
#include "membership/history/manifest.h"
#include "membership/history/payload.h"
#include "membership/history/run_codecs.h"
#include "membership/history/signature.h"

namespace atolld {
namespace {

constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxRunIdBytes = 64;
constexpr int kMaxContributors = 65536;
constexpr uint32_t kMaxChunkElements = 524288;

absl::Status CheckRunId(absl::string_view run_id) {
  bool good = !run_id.empty() && run_id.size() <= kMaxRunIdBytes;
  for (const char c : run_id) {
    good = good && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-');
  }
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError("a run id is 1 to 64 characters of a-z, 0-9 and -");
}

// A set of contributors: one bit each, none beyond the last contributor, and at least one of them
// set unless it may be empty.
absl::Status CheckBitmap(absl::string_view bitmap, int contributors, bool may_be_empty = false) {
  if (bitmap.size() != static_cast<size_t>(contributors + 7) / 8) {
    return absl::InvalidArgumentError(
        absl::StrCat("a bitmap of ", bitmap.size(), " bytes for ", contributors, " contributors"));
  }
  unsigned any = 0;
  for (const char c : bitmap) any |= static_cast<unsigned char>(c);
  if (any == 0 && !may_be_empty)
    return absl::InvalidArgumentError("its set of contributors is empty");
  if (contributors % 8 != 0 &&
      (static_cast<unsigned char>(bitmap.back()) >> (contributors % 8)) != 0) {
    return absl::InvalidArgumentError("its bitmap names a contributor that the header lacks");
  }
  return absl::OkStatus();
}

// Every sample is named once in the whole entry, each contributor's ranges in ascending order.
absl::Status CheckSamples(const v1::EntryHeader& header) {
  std::map<uint64_t, uint64_t> spent;  // end, by first
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

absl::Status CheckContributors(const v1::EntryHeader& header) {
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
    if (!(scale > 0 && scale <= 1)) {
      return absl::InvalidArgumentError(absl::StrCat("contributor ", contributor.peer(),
                                                     ": its scale ", scale,
                                                     " is not above 0 and up to 1"));
    }
  }
  return CheckSamples(header);
}

// `record` is a shard's or a chunk's, its own bitmap checked.
template <typename Record>
absl::Status CheckPartials(const Record& record, int contributors) {
  if (ValidParts(record.partials(), record.contributors(), static_cast<size_t>(contributors))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "its partial means overlap, are out of order or name others than its contributors");
}

absl::Status CheckShard(const v1::ShardRecord& shard, uint64_t first_chunk, uint64_t chunks,
                        int contributors) {
  if (shard.first_chunk() != first_chunk) {
    return absl::InvalidArgumentError(absl::StrCat("it begins at chunk ", shard.first_chunk(),
                                                   ", the one before it ends at ", first_chunk));
  }
  if (shard.chunks() == 0 || shard.chunks() > chunks - first_chunk) {
    return absl::InvalidArgumentError(absl::StrCat("it has ", shard.chunks(), " chunks, ",
                                                   chunks - first_chunk, " are left of the grid"));
  }
  if (shard.reducer().empty() || shard.reducer().size() > kMaxNameBytes) {
    return absl::InvalidArgumentError("a reducer's name has 1 to 256 bytes");
  }
  // The set of a shard whose every chunk is an exception says nothing.
  const bool all_differ = static_cast<uint32_t>(shard.exceptions_size()) == shard.chunks();
  RETURN_IF_ERROR(CheckBitmap(shard.contributors(), contributors, all_differ));
  RETURN_IF_ERROR(CheckPartials(shard, contributors));
  uint64_t next = first_chunk;
  for (const v1::ChunkRecord& exception : shard.exceptions()) {
    if (exception.chunk() < next || exception.chunk() >= first_chunk + shard.chunks()) {
      return absl::InvalidArgumentError(absl::StrCat("the record of chunk ", exception.chunk(),
                                                     " is out of order or outside the shard"));
    }
    next = uint64_t{exception.chunk()} + 1;
    const std::string context = absl::StrCat("chunk ", exception.chunk());
    RETURN_IF_ERROR(Annotate(CheckBitmap(exception.contributors(), contributors), context));
    RETURN_IF_ERROR(Annotate(CheckPartials(exception, contributors), context));
  }
  return absl::OkStatus();
}

absl::Status CheckShards(const ChunkGrid& grid, const v1::EntryHeader& header) {
  uint64_t chunk = 0;
  for (int i = 0; i < header.shards_size(); ++i) {
    RETURN_IF_ERROR(
        Annotate(CheckShard(header.shards(i), chunk, grid.chunks(), header.contributors_size()),
                 absl::StrCat("shard ", i)));
    chunk += header.shards(i).chunks();
  }
  if (chunk != grid.chunks()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the shards hold ", chunk, " chunks, the run's grid has ", grid.chunks()));
  }
  return absl::OkStatus();
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

// What the run fixed once and a header only repeats.
absl::Status CheckAgainstRun(const v1::Genesis& genesis, const v1::EntryHeader& header) {
  const v1::RunSpec& spec = genesis.spec();
  if (header.range_offset() != 0 || header.range_elements() != genesis.manifest().elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat("it covers values ", header.range_offset(), " to ",
                     header.range_offset() + header.range_elements(), ", an entry covers all ",
                     genesis.manifest().elements()));
  }
  if (header.base_version() != header.version() - 1 || header.apply_step() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("its base is version ", header.base_version(),
                                                   " at inner step ", header.apply_step(),
                                                   ", it must be the version before it, at 0"));
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
        " in ", header.clipping_steps(), " steps, the run's by ", spec.exchange().aggregation(),
        " with ", spec.exchange().faulty()));
  }
  if (header.chunk_elements() != spec.exchange().chunk_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("its chunks have ", header.chunk_elements(),
                                                   " values, the run's have ",
                                                   spec.exchange().chunk_elements()));
  }
  return absl::OkStatus();
}

absl::Status CheckContents(const v1::Genesis& genesis, const v1::EntryHeader& header) {
  RETURN_IF_ERROR(CheckAgainstRun(genesis, header));
  RETURN_IF_ERROR(CheckContributors(header));
  const ChunkGrid grid(header.range_elements(), header.chunk_elements());
  RETURN_IF_ERROR(CheckShards(grid, header));
  RETURN_IF_ERROR(CheckScalars(header));
  RETURN_IF_ERROR(
      Annotate(DigestFromBytes(header.payload_digest()).status(), "the payload's digest"));
  return Annotate(DigestFromBytes(header.previous_state_digest()).status(),
                  "the previous state's digest");
}

}  // namespace

absl::Status CheckGenesis(const v1::Genesis& genesis) {
  const v1::RunSpec& spec = genesis.spec();
  RETURN_IF_ERROR(CheckRunId(spec.run_id()));
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
  RETURN_IF_ERROR(RuleOf(spec.exchange()).status());
  const uint32_t decay_bits = spec.exchange().feedback_decay_bits();
  if (const float decay = absl::bit_cast<float>(decay_bits);
      decay_bits != 0 && !(decay > 0.0f && decay <= 1.0f)) {
    return absl::InvalidArgumentError(
        absl::StrCat("error feedback's decay is ", decay, ", not above 0 and up to 1"));
  }
  RETURN_IF_ERROR(FindOuterRule(spec.outer().rule()).status());
  if (!spec.history_key().empty() && spec.history_key().size() != kPublicKeyBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a history key of ", spec.history_key().size(),
                                                   " bytes; it has ", kPublicKeyBytes));
  }
  if (!genesis.state_digest().empty()) {
    RETURN_IF_ERROR(Annotate(DigestFromBytes(genesis.state_digest()).status(), "state digest"));
  }
  return absl::OkStatus();
}

OuterScalars ScalarsOf(const v1::EntryHeader& header) {
  OuterScalars scalars;
  for (const v1::Scalar& scalar : header.scalars())
    scalars[scalar.name()] = absl::bit_cast<float>(scalar.bits());
  return scalars;
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

}  // namespace atolld
