#include "membership/planning/message_sizes.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "atoll/v1/exchange.pb.h"
#include "atoll/v1/membership.pb.h"
#include "compression/base/bitmap.h"
#include "compression/base/words.h"
#include "membership/history/digest.h"
#include "membership/history/mean_records.h"
#include "membership/history/signing_key.h"

namespace atolld {
namespace {

constexpr uint64_t kAnyU64 = std::numeric_limits<uint64_t>::max();
constexpr uint32_t kAnyU32 = std::numeric_limits<uint32_t>::max();

// The ranges of samples in one update: a lease is one range, or a few if it was made of returned
// ones.
constexpr int kSampleRanges = 8;

// Everything that is not counted: the run's spec, digests, signatures, scalars.
constexpr uint64_t kRest = 16384;

// The part of a message that is not a header. It is greatest in a Hello; Headers are a little
// shorter than they may be (daemon/peer/coordinator_link.cc).
constexpr uint64_t kBesideHeader = uint64_t{48} << 10;

// The limit of a record on disk; a snapshot's description is one.
constexpr uint64_t kMostRecordBytes = uint64_t{64} << 20;

constexpr char kFewerPeers[] = "fewer peers ([run] peers)";
constexpr char kLargerChunks[] = "larger chunks ([exchange] chunk_elements)";
constexpr char kFewerTensors[] = "a model of fewer tensors, or of shorter names";
constexpr char kSmallerModel[] = "a smaller model; no setting helps";

std::string LongestId() { return std::string(64, 'p'); }
std::string LongestAddress() { return std::string(256, 'a'); }

uint64_t VarintBytes(uint64_t value) {
  uint64_t bytes = 1;
  while (value >>= 7) ++bytes;
  return bytes;
}

// The size of a field that occurs once: one byte of tag, its length, its content. (Tags of two
// bytes are in kRest.)
uint64_t Field(uint64_t content) { return 1 + VarintBytes(content) + content; }

template <typename Message>
uint64_t Each(const Message& message) {
  return Field(message.ByteSizeLong());
}

// What says which of the experts a peer owns.
std::string OwnedOf(uint64_t experts) { return std::string(BitmapBytes(experts), '\xff'); }

uint64_t MemberOfPlan(uint64_t experts) {
  v1::PlanMember member;
  member.set_peer(LongestId());
  member.set_address(LongestAddress());
  member.set_weight_bits(kAnyU32);
  member.set_contribution_root(std::string(kDigestBytes, 'r'));
  member.set_steps(kAnyU64);
  member.set_tokens(kAnyU64);
  member.set_scale_bits(kAnyU32);
  member.set_squared_norm_bits(kAnyU64);
  member.set_squared_distance_bits(kAnyU64);
  member.set_signature(std::string(kSignatureBytes, 's'));
  member.set_signing_key(std::string(kPublicKeyBytes, 'k'));
  member.set_owned(OwnedOf(experts));
  return Each(member);
}

uint64_t ShardOfPlan(uint64_t chunks) {
  v1::Shard shard;
  shard.set_first_chunk(static_cast<uint32_t>(chunks));
  shard.set_chunks(static_cast<uint32_t>(chunks));
  shard.set_reducer(LongestId());
  shard.set_attempt(kAnyU32);
  shard.set_holder(LongestId());
  return Each(shard);
}

uint64_t ContributorOfHeader(uint64_t experts) {
  v1::Contributor contributor;
  contributor.set_peer(LongestId());
  contributor.set_weight_bits(kAnyU32);
  contributor.set_steps(kAnyU64);
  contributor.set_tokens(kAnyU64);
  contributor.set_scale_bits(kAnyU32);
  contributor.set_parties(kAnyU32);
  contributor.set_age(kAnyU32);
  for (int i = 0; i < kSampleRanges; ++i) {
    v1::SampleRange* const range = contributor.add_samples();
    range->set_first(kAnyU64);
    range->set_count(kAnyU64);
  }
  contributor.set_owned(OwnedOf(experts));
  return Each(contributor);
}

v1::ChunkRun RunOfRecords(uint64_t chunks) {
  v1::ChunkRun run;
  run.set_chunks(static_cast<uint32_t>(chunks));
  run.set_set(kAnyU32);
  return run;
}

// A shard whose chunks all have the same set.
uint64_t ShardOfRecords(uint64_t chunks) {
  v1::ShardRecord shard;
  shard.set_first_chunk(static_cast<uint32_t>(chunks));
  shard.set_chunks(static_cast<uint32_t>(chunks));
  shard.set_reducer(LongestId());
  *shard.add_runs() = RunOfRecords(chunks);
  return Each(shard);
}

// The least that an honest vote reports: the mean of each chunk is over all contributors or, if it
// belongs to an expert, over all that own the expert. So each expert may add a set, as far as there
// are so many, and a run, since its chunks follow each other.
uint64_t RecordsOf(const SizeTerms& terms, uint64_t chunks) {
  const uint64_t set = Field(BitmapBytes(terms.peers));
  const uint64_t sets =
      terms.peers < 32 ? std::min(terms.experts, uint64_t{1} << terms.peers) : terms.experts;
  return terms.peers * ShardOfRecords(chunks) + Field(set) + sets * Field(set) +
         terms.experts * Each(RunOfRecords(chunks));
}

uint64_t MemberOfRoster() {
  v1::Member member;
  member.set_peer(LongestId());
  member.set_address(LongestAddress());
  member.set_state("joining");
  member.set_has_state(true);
  member.set_version(kAnyU64);
  member.mutable_offer()->set_oldest_entry(kAnyU64);
  member.mutable_offer()->set_has_snapshot(true);
  member.mutable_offer()->set_snapshot_version(kAnyU64);
  member.set_region(LongestId());
  return Each(member);
}

}  // namespace

std::vector<MessageSize> MessageSizes(const SizeTerms& terms) {
  const uint64_t peers = terms.peers;
  const uint64_t exchanged = terms.exchanged > 0 ? terms.exchanged : terms.parameters;
  const uint64_t chunks = (exchanged + terms.chunk_elements - 1) / terms.chunk_elements;
  const uint64_t an_id = Field(LongestId().size());
  const uint64_t records = RecordsOf(terms, chunks);
  // Its records may be as long as those of a vote.
  const uint64_t header =
      peers * ContributorOfHeader(terms.experts) + kMostMeanRecordsBytes + kRest;
  const uint64_t blocks = (terms.parameters * sizeof(float) + kBlockBytes - 1) / kBlockBytes;
  const uint64_t genesis = Field(terms.manifest_bytes) + kRest;
  return {
      {"ExchangeOpen", Field(BitmapBytes(chunks)) + peers * VarintBytes(kAnyU32) + kRest,
       kMostMessageBytes, kLargerChunks},
      {"WorkerReady", genesis, kMostSessionBytes, kFewerTensors},
      {"Plan", peers * (MemberOfPlan(terms.experts) + ShardOfPlan(chunks) + an_id) + kRest,
       kMostMessageBytes, kFewerPeers},
      {"Roster", peers * (MemberOfRoster() + an_id) + kRest, kMostMessageBytes, kFewerPeers},
      {"a Vote's records", records, kMostMeanRecordsBytes, kFewerPeers},
      {"EntryHeader", header, kMostSessionBytes - kBesideHeader, kFewerPeers},
      {"SnapshotInfo", genesis + header, kMostMessageBytes, kFewerPeers},
      {"a snapshot's leaves on disk",
       terms.buffers * blocks * Field(kDigestBytes) + genesis + header, kMostRecordBytes,
       kSmallerModel},
  };
}

uint64_t MostPeers(SizeTerms terms) {
  const auto pass = [&](uint64_t peers) {
    terms.peers = peers;
    const std::vector<MessageSize> sizes = MessageSizes(terms);
    return std::all_of(sizes.begin(), sizes.end(),
                       [](const MessageSize& size) { return size.bytes <= size.limit; });
  };
  uint64_t most = 0;
  for (uint64_t step = uint64_t{1} << 16; step > 0; step /= 2) {
    if (pass(most + step)) most += step;
  }
  return most;
}

std::vector<size_t> WhoFits(absl::Span<const uint32_t> ages, uint64_t most) {
  std::vector<size_t> positions(ages.size());
  std::iota(positions.begin(), positions.end(), size_t{0});
  if (positions.size() <= most) return positions;
  std::stable_sort(positions.begin(), positions.end(),
                   [&](size_t a, size_t b) { return ages[a] > ages[b]; });
  positions.resize(most);
  std::sort(positions.begin(), positions.end());
  return positions;
}

absl::Status CheckMessageSizes(const SizeTerms& terms) {
  for (const MessageSize& size : MessageSizes(terms)) {
    if (size.bytes <= size.limit) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        size.message, " of ", Counted(terms.parameters, "parameter"), " in chunks of ",
        terms.chunk_elements, " for ", Counted(terms.peers, "peer"), " can take ", size.bytes,
        " bytes, and ", size.limit, " is the limit; what helps is ", size.remedy));
  }
  return absl::OkStatus();
}

}  // namespace atolld
