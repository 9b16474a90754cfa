#include "tests/unit/daemon/replica/state/test_run.h"

#include <algorithm>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "compression/codec.h"
#include "membership/history/fragment.h"
#include "membership/history/header.h"
#include "membership/history/step_scalars.h"
#include "tests/unit/membership/history/records_text.h"

namespace atolld {
namespace {

// SplitMix64: the same numbers on every machine.
float Uniform(uint64_t seed, uint64_t index) {
  uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15u + index * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return static_cast<float>(static_cast<int64_t>(z >> 40)) / 8388608.0f - 1.0f;
}

void AddTensor(const std::string& name, uint64_t rows, v1::Manifest* manifest) {
  v1::Tensor& tensor = *manifest->add_tensors();
  tensor.set_name(name);
  tensor.add_shape(rows);
  tensor.set_offset(manifest->elements());
  manifest->set_elements(manifest->elements() + rows);
}

// The tensors of a mixture with two experts in two layers. The last one has what is left.
v1::Manifest MixtureManifest(uint64_t elements) {
  v1::Manifest manifest;
  const uint64_t tenth = elements / 10;
  AddTensor("wte.weight", 3 * tenth, &manifest);
  AddTensor("h.0.experts.0.up", 2 * tenth, &manifest);
  AddTensor("h.0.experts.1.up", 2 * tenth, &manifest);
  AddTensor("head.bias", tenth, &manifest);
  AddTensor("h.1.experts.0.up", tenth, &manifest);
  AddTensor("h.1.experts.1.up", elements - manifest.elements(), &manifest);
  return manifest;
}

// Sets what the contributors own, and records that p2 alone has trained its expert.
void AddOwners(const v1::Genesis& genesis, v1::EntryHeader* header) {
  const uint32_t owned = header->version() % 2 == 0 ? 0 : 1;
  for (v1::Contributor& contributor : *header->mutable_contributors()) {
    const char bits = static_cast<char>(contributor.peer() == "p2" ? 1 << owned : 0);
    contributor.set_owned(std::string(1, bits));
  }
  const ChunkGrid grid = Fragments(genesis.spec(), genesis.manifest())
                             .Grid(header->version(), header->chunk_elements());
  std::vector<RunText> runs;
  for (uint32_t chunk = 0; chunk < grid.chunks(); ++chunk) {
    const uint32_t part = grid.Part(chunk);
    runs.push_back({1, part == 0 ? "\x07" : std::string(1, part == 1 + owned ? '\x02' : '\0')});
  }
  *header->mutable_records() = RecordsOf({{"p2", runs}});
}

}  // namespace

v1::Genesis TestRun::Genesis() const {
  v1::Genesis genesis;
  v1::RunSpec& spec = *genesis.mutable_spec();
  spec.set_run_id("test-run");
  spec.set_numerics(1);
  spec.set_rounds(1000);
  spec.mutable_outer()->set_rule(rule);
  spec.mutable_outer()->set_learning_rate_bits(absl::bit_cast<uint32_t>(0.7f));
  spec.mutable_outer()->set_momentum_bits(absl::bit_cast<uint32_t>(0.9f));
  spec.mutable_exchange()->set_codec(update_codec.empty() ? codec : update_codec);
  if (!update_codec.empty()) spec.mutable_exchange()->set_upper_codec(codec);
  spec.mutable_exchange()->set_chunk_elements(chunk_elements);
  spec.mutable_inner()->set_control_variates(control_variates);
  if (fragments > 1) {
    spec.mutable_mode()->set_kind("streaming");
    spec.mutable_mode()->set_fragments(fragments);
  }
  if (history_key) spec.set_history_key(history_key->public_key());
  for (const v1::RunFile& file : files) *spec.add_files() = file;
  v1::Manifest& manifest = *genesis.mutable_manifest();
  if (experts) {
    spec.mutable_experts()->set_owners(1);
    spec.mutable_experts()->add_tensors("*.experts.#.*");
    manifest = MixtureManifest(elements);
    return genesis;
  }
  v1::Tensor& first = *manifest.add_tensors();
  first.set_name("wte.weight");
  first.add_shape(elements / 2);
  first.add_shape(1);
  v1::Tensor& second = *manifest.add_tensors();
  second.set_name("head.bias");
  second.add_shape(elements - elements / 2);
  second.set_offset(elements / 2);
  manifest.set_elements(elements);
  return genesis;
}

std::vector<float> TestRun::Theta() const {
  std::vector<float> theta(elements);
  for (uint64_t i = 0; i < elements; ++i) theta[i] = Uniform(99, i);
  return theta;
}

uint64_t TestRun::Covered(uint64_t version) const {
  const v1::Genesis genesis = Genesis();
  return FragmentElements(genesis.spec(), genesis.manifest(), version);
}

std::vector<float> TestRun::Mean(uint64_t seed) const {
  std::vector<float> mean(Covered(std::max<uint64_t>(1, seed)));
  for (size_t i = 0; i < mean.size(); ++i) mean[i] = 0.01f * Uniform(seed, i);
  return mean;
}

SharedBytes TestRun::Payload(uint64_t seed) const {
  const Codec& encoder = **FindCodec(codec);
  const std::vector<float> mean = Mean(seed);
  const ChunkGrid grid(mean.size(), chunk_elements);
  std::vector<SharedBytes> chunks;
  for (uint32_t chunk = 0; chunk < grid.chunks(); ++chunk) {
    const auto values = absl::MakeConstSpan(mean).subspan(grid.Offset(chunk), grid.Elements(chunk));
    std::vector<uint8_t> bytes(encoder.MaxEncodedBytes(values.size()));
    const absl::StatusOr<size_t> used = encoder.Encode(values, absl::MakeSpan(bytes));
    CHECK_OK(used.status());
    bytes.resize(*used);
    chunks.push_back(SharedBytes(std::move(bytes)));
  }
  return JoinPayload(chunks);
}

v1::EntryHeader TestRun::Header(uint64_t version, const Digest& previous, const Digest& state,
                                const SharedBytes& payload) const {
  v1::EntryHeader header;
  header.set_run_id("test-run");
  header.set_version(version);
  header.set_range_elements(Covered(version));
  if (fragments > 1) {
    header.set_fragment(static_cast<uint32_t>((version - 1) % fragments));
    header.set_fragments(fragments);
  }
  header.set_base_version(version - 1);
  for (const char* peer : {"p1", "p2", "p3"}) {
    v1::Contributor& contributor = *header.add_contributors();
    contributor.set_peer(peer);
    contributor.set_weight_bits(absl::bit_cast<uint32_t>(1.0f));
    contributor.set_steps(10);
    contributor.set_tokens(1000);
  }
  const ChunkGrid grid(header.range_elements(), chunk_elements);
  *header.mutable_records() = grid.chunks() == 1
                                  ? RecordsOf({{"p2", {{1, "\x05"}}}})
                                  : RecordsOf({{"p2", {{grid.chunks() - 1, "\x07"}, {1, "\x05"}}}});
  const OuterRule& outer = **FindOuterRule(rule);
  OuterScalars scalars = *outer.Scalars({0.7f, 0.9f, 0.99f, 1e-3f});
  if (control_variates) scalars.insert({{"control_rate", 10.0f}, {"control_share", 0.5f}});
  SetScalars(scalars, &header);
  AddStepScalars(Genesis().spec(), nullptr, 0, &header);
  header.set_outer_rule(rule);
  header.set_codec(codec);
  header.set_chunk_elements(chunk_elements);
  if (experts) AddOwners(Genesis(), &header);
  header.set_payload_digest(ToBytes(TreeDigest(payload.span())));
  header.set_previous_state_digest(ToBytes(state));
  header.set_previous_header_digest(ToBytes(previous));
  if (history_key) header.set_signature(SignHeader(*history_key, header));
  return header;
}

v1::EntryHeader TestRun::NextHeader(Replica& replica, const SharedBytes& payload) const {
  return Header(replica.version() + 1, replica.header_digest(), replica.StateDigest(), payload);
}

void TestRun::CommitTo(Replica& replica, uint64_t version) const {
  while (replica.version() < version) {
    const SharedBytes payload = Payload(replica.version() + 1);
    CHECK_OK(replica.Commit(NextHeader(replica, payload), &payload, {}));
  }
}

absl::StatusOr<OwnedReplica> CreateReplica(Files& files, const std::string& dir, const TestRun& run,
                                           const std::string& buffer_folder) {
  OwnedReplica owned;
  *owned.theta = run.Theta();
  ASSIGN_OR_RETURN(owned.replica, Replica::Create(files, dir, run.Genesis(),
                                                  absl::MakeSpan(*owned.theta), buffer_folder));
  return owned;
}

absl::StatusOr<OwnedReplica> OpenReplica(Files& files, const std::string& dir,
                                         const std::string& buffer_folder) {
  OwnedReplica owned;
  ASSIGN_OR_RETURN(owned.replica, Replica::Open(
                                      files, dir,
                                      [&](uint64_t elements) -> absl::StatusOr<absl::Span<float>> {
                                        owned.theta->assign(elements, 0.0f);
                                        return absl::MakeSpan(*owned.theta);
                                      },
                                      buffer_folder));
  return owned;
}

SigningKey TestKey(char byte) { return *SigningKey::FromSeed(std::string(32, byte)); }

v1::Seal SealOf(Replica& replica, const std::optional<SigningKey>& key) {
  v1::Seal seal;
  seal.set_run_id(replica.genesis().spec().run_id());
  seal.set_version(replica.version());
  seal.set_state_digest(ToBytes(replica.StateDigest()));
  seal.set_header_digest(ToBytes(replica.header_digest()));
  if (key) seal.set_signature(SignSeal(*key, seal));
  return seal;
}

std::string FileBytes(Files& files, const std::string& path) {
  const absl::StatusOr<std::string> bytes = ReadFile(files, path, uint64_t{1} << 30);
  CHECK_OK(bytes.status());
  return *bytes;
}

std::map<std::string, std::string> FilesBelow(Files& files, const std::string& dir) {
  const absl::StatusOr<std::vector<std::string>> names = files.List(dir);
  CHECK_OK(names.status());
  std::map<std::string, std::string> found;
  for (const std::string& name : *names) {
    const std::string path = absl::StrCat(dir, "/", name);
    if (files.List(path).ok()) {
      found.merge(FilesBelow(files, path));
    } else {
      found[path] = FileBytes(files, path);
    }
  }
  return found;
}

}  // namespace atolld
