// Reads any bytes as a header or a genesis, and damaged real ones: their checks and digests never
// fail to return, and a header that differs in any field has another digest.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "atoll/v1/run.pb.h"
#include "google/protobuf/stubs/logging.h"
#include "membership/history/header.h"
#include "membership/history/mean_records.h"
#include "tests/fuzz/fuzz_input.h"

namespace atolld {
namespace {

constexpr uint32_t kChunkElements = 16;

v1::Genesis MakeGenesis(FuzzInput* input) {
  v1::Genesis genesis;
  v1::RunSpec* const spec = genesis.mutable_spec();
  spec->set_run_id("fuzzed");
  spec->set_numerics(1);
  spec->set_rounds(8);
  spec->mutable_exchange()->set_codec("int8");
  spec->mutable_exchange()->set_chunk_elements(kChunkElements);
  spec->mutable_outer()->set_rule("nesterov");
  v1::Tensor* const tensor = genesis.mutable_manifest()->add_tensors();
  tensor->set_name("w");
  tensor->add_shape(1 + input->Below(200));
  genesis.mutable_manifest()->set_elements(tensor->shape(0));
  genesis.set_state_digest(std::string(sizeof(Digest), 's'));
  return genesis;
}

v1::EntryHeader MakeHeader(const v1::Genesis& genesis, FuzzInput* input) {
  v1::EntryHeader header;
  header.set_run_id("fuzzed");
  header.set_version(1);
  header.set_range_elements(genesis.manifest().elements());
  header.set_outer_rule("nesterov");
  header.set_codec("int8");
  header.set_chunk_elements(kChunkElements);
  header.set_payload_digest(std::string(sizeof(Digest), 'p'));
  header.set_previous_state_digest(genesis.state_digest());
  header.set_previous_header_digest(ToBytes(GenesisDigest(genesis)));
  const uint32_t contributors = 1 + input->Byte() % 4;
  for (uint32_t i = 0; i < contributors; ++i) {
    v1::Contributor* const contributor = header.add_contributors();
    contributor->set_peer(std::string(1, static_cast<char>('a' + i)));
    contributor->set_weight_bits(0x3f800000);
    v1::SampleRange* const samples = contributor->add_samples();
    samples->set_first(uint64_t{i} * 100);
    samples->set_count(100);
  }
  const auto chunks =
      static_cast<uint32_t>((genesis.manifest().elements() + kChunkElements - 1) / kChunkElements);
  const uint32_t first = chunks > 1 ? 1 + input->Below(chunks - 1) : chunks;
  MeanRecordsBuilder records;
  for (const auto& [begin, count] : {std::pair(0u, first), std::pair(first, chunks - first)}) {
    if (count == 0) continue;
    records.BeginShard(begin, "a");
    records.Add(std::string(1, static_cast<char>((1 << contributors) - 1)), {}, count);
  }
  *header.mutable_records() = records.Take();
  return header;
}

template <typename Message>
bool Parse(absl::Span<const uint8_t> bytes, Message* message) {
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

}  // namespace
}  // namespace atolld

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atolld;
  google::protobuf::SetLogHandler(nullptr);  // what cannot be parsed is what this is about
  FuzzInput input(data, size);
  const v1::Genesis genesis = MakeGenesis(&input);
  const Digest previous = GenesisDigest(genesis);
  const v1::EntryHeader real = MakeHeader(genesis, &input);
  const absl::Status taken = CheckHeader(genesis, 0, previous, real);
  Require(CheckGenesis(genesis).ok(), "a real genesis is taken");
  Require(taken.ok(), std::string(taken.message()).c_str());

  const std::string text = real.SerializeAsString();
  std::vector<uint8_t> damaged(text.begin(), text.end());
  input.Damage(&damaged);
  v1::EntryHeader header;
  if (Parse(damaged, &header)) {
    (void)CheckHeader(genesis, 0, previous, header);
    v1::EntryHeader unsigned_header = header;
    unsigned_header.clear_signature();
    unsigned_header.DiscardUnknownFields();
    const bool same = unsigned_header.SerializeAsString() == text;
    Require(same == (HeaderDigest(header) == HeaderDigest(real)),
            "exactly the same header has the same digest");
  }
  v1::EntryHeader any_header;
  v1::Genesis any_genesis;
  const absl::Span<const uint8_t> rest = input.Rest();
  if (Parse(rest, &any_header)) (void)CheckHeader(genesis, 0, previous, any_header);
  if (Parse(rest, &any_genesis) && CheckGenesis(any_genesis).ok()) {
    (void)CheckHeader(any_genesis, 0, GenesisDigest(any_genesis), any_header);
  }
  return 0;
}
