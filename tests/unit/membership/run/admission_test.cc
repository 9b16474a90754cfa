#include "membership/run/admission.h"

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "membership/history/header.h"
#include "membership/planning/message_sizes.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

v1::Manifest OneTensorManifest() {
  v1::Manifest manifest;
  v1::Tensor* a = manifest.add_tensors();
  a->set_name("wte");
  a->add_shape(4);
  a->add_shape(3);
  v1::Tensor* b = manifest.add_tensors();
  b->set_name("bias");
  b->add_shape(5);
  b->set_offset(12);
  manifest.set_elements(17);
  return manifest;
}

// Would break: replicas of different shapes average each other's tensors, or a lie about sizes is
// believed.
TEST(CheckManifest, RefusesWhatDoesNotTile) {
  EXPECT_TRUE(CheckManifest(OneTensorManifest()).ok());
  EXPECT_FALSE(CheckManifest(v1::Manifest()).ok());
  v1::Manifest gap = OneTensorManifest();
  gap.mutable_tensors(1)->set_offset(13);
  EXPECT_THAT(CheckManifest(gap).message(), HasSubstr("tensor bias"));
  v1::Manifest sum = OneTensorManifest();
  sum.set_elements(18);
  EXPECT_FALSE(CheckManifest(sum).ok());
  v1::Manifest overflow = OneTensorManifest();
  for (int i = 0; i < 4; ++i) overflow.mutable_tensors(0)->add_shape(uint64_t{1} << 62);
  EXPECT_FALSE(CheckManifest(overflow).ok());
  v1::Manifest empty = OneTensorManifest();
  empty.mutable_tensors(0)->set_shape(0, 0);
  EXPECT_FALSE(CheckManifest(empty).ok());
}

v1::Manifest OfTensors(int count) {
  v1::Manifest manifest;
  for (int i = 0; i < count; ++i) {
    v1::Tensor* tensor = manifest.add_tensors();
    tensor->set_name(std::to_string(i));
    tensor->set_offset(static_cast<uint64_t>(i));
  }
  manifest.set_elements(static_cast<uint64_t>(count));
  return manifest;
}

// Would break: a run would begin with a state that no message can describe, or with more peers than
// a header has room for, and stand still later.
TEST(CheckFits, RefusesAStateOfWhichSomeMessageWouldNotPass) {
  v1::Genesis genesis;
  *genesis.mutable_manifest() = OneTensorManifest();
  genesis.mutable_spec()->mutable_exchange()->set_chunk_elements(65536);
  genesis.mutable_spec()->mutable_outer()->set_rule("nesterov");
  EXPECT_TRUE(CheckFits(genesis, 1024).ok()) << CheckFits(genesis, 1024);
  EXPECT_THAT(CheckFits(genesis, 2000).message(), HasSubstr("fewer peers ([run] peers)"));
  genesis.mutable_manifest()->mutable_tensors(0)->set_name(std::string(kMostSessionBytes, 'w'));
  EXPECT_THAT(CheckFits(genesis, 3).message(), HasSubstr("WorkerReady"));
  *genesis.mutable_manifest() = OneTensorManifest();
  genesis.mutable_manifest()->set_elements(uint64_t{1} << 38);
  EXPECT_THAT(CheckFits(genesis, 3).message(), HasSubstr("a snapshot's leaves"));
  genesis.mutable_spec()->mutable_outer()->set_rule("average");  // no momentum: half as many
  EXPECT_TRUE(CheckFits(genesis, 3).ok()) << CheckFits(genesis, 3);
  genesis.mutable_spec()->mutable_exchange()->set_chunk_elements(4096);
  EXPECT_THAT(CheckFits(genesis, 3).message(), HasSubstr("[exchange] chunk_elements"));
}

// Broken: a run whose peers own experts would begin, although its headers would not pass.
TEST(CheckFits, CountsTheOwnersOfExperts) {
  v1::Genesis genesis;
  genesis.mutable_spec()->mutable_exchange()->set_chunk_elements(4096);
  v1::Manifest* const manifest = genesis.mutable_manifest();
  const auto add = [&](const std::string& name) {
    v1::Tensor* const tensor = manifest->add_tensors();
    tensor->set_name(name);
    tensor->add_shape(1);
    tensor->set_offset(manifest->elements());
    manifest->set_elements(manifest->elements() + 1);
  };
  add("shared");
  for (int i = 0; i < 4096; ++i) add(absl::StrCat("expert.", i));
  EXPECT_EQ(SizeTermsOf(genesis, 3).experts, 0u);
  EXPECT_TRUE(CheckFits(genesis, 900).ok()) << CheckFits(genesis, 900);
  genesis.mutable_spec()->mutable_experts()->set_owners(2);
  genesis.mutable_spec()->mutable_experts()->add_tensors("expert.#");
  EXPECT_EQ(SizeTermsOf(genesis, 3).experts, 4096u);
  EXPECT_TRUE(CheckFits(genesis, 256).ok()) << CheckFits(genesis, 256);
  EXPECT_THAT(CheckFits(genesis, 900).message(), HasSubstr("EntryHeader"));
}

// Would break: a manifest within one limit and beyond another's makes a run that some cannot join.
TEST(CheckManifest, KeepsTheLimits) {
  EXPECT_TRUE(CheckManifest(OfTensors(65536)).ok());
  EXPECT_THAT(CheckManifest(OfTensors(65537)).message(), HasSubstr("65537 tensors"));
  const auto check = [](const std::function<void(v1::Tensor*)>& change, uint64_t elements) {
    v1::Manifest manifest = OfTensors(1);
    change(manifest.mutable_tensors(0));
    manifest.set_elements(elements);
    return CheckManifest(manifest);
  };
  const auto dimensions = [](int count) {
    return [count](v1::Tensor* t) {
      for (int i = 0; i < count; ++i) t->add_shape(1);
    };
  };
  EXPECT_TRUE(check(dimensions(8), 1).ok());
  EXPECT_THAT(check(dimensions(9), 1).message(), HasSubstr("9 dimensions"));
  const auto name = [](size_t bytes) {
    return [bytes](v1::Tensor* t) { t->set_name(std::string(bytes, 'n')); };
  };
  EXPECT_TRUE(check(name(256), 1).ok());
  EXPECT_THAT(check(name(257), 1).message(), HasSubstr("1 to 256 bytes"));
  EXPECT_THAT(check(name(0), 1).message(), HasSubstr("1 to 256 bytes"));
  const auto values = [](uint64_t count) {
    return [count](v1::Tensor* t) { t->add_shape(count); };
  };
  const uint64_t most = uint64_t{1} << 40;
  EXPECT_TRUE(check(values(most), most).ok());
  EXPECT_THAT(check(values(most + 1), most + 1).message(), HasSubstr("too many values"));
  v1::Manifest two = OfTensors(2);
  two.mutable_tensors(0)->add_shape(most);
  two.mutable_tensors(1)->set_offset(most);
  two.set_elements(most + 1);
  EXPECT_THAT(CheckManifest(two).message(), HasSubstr("too many values"));
  v1::Manifest twins = OfTensors(2);
  twins.mutable_tensors(1)->set_name("0");
  EXPECT_THAT(CheckManifest(twins).message(), HasSubstr("two tensors are named 0"));
}

// Would break: a run begins with a version 0 of other settings, or of another corpus, than its own.
TEST(CheckInitialState, IsOfThisRunAndOfThatWorker) {
  v1::RunSpec spec;
  spec.set_run_id("r1");
  spec.set_seed(7);
  v1::Genesis good;
  *good.mutable_spec() = spec;
  good.mutable_spec()->mutable_data()->set_digest(std::string(32, 'd'));
  *good.mutable_manifest() = OneTensorManifest();
  good.set_state_digest(std::string(32, 's'));
  v1::WorkerReady worker;
  *worker.mutable_manifest() = OneTensorManifest();
  worker.set_data_digest(std::string(32, 'd'));
  EXPECT_TRUE(CheckInitialState(spec, &worker, good).ok());
  EXPECT_TRUE(CheckInitialState(spec, nullptr, good).ok());
  // Only whoever makes version 0 has read the tokenizer.
  v1::Genesis listing = good;
  v1::RunFile* file = listing.mutable_spec()->add_files();
  file->set_role("tokenizer");
  file->set_name("tokenizer.json");
  file->set_bytes(5);
  file->set_digest(std::string(32, 'f'));
  EXPECT_TRUE(CheckInitialState(spec, &worker, listing).ok());
  file->set_name("../tokenizer.json");
  EXPECT_THAT(CheckInitialState(spec, &worker, listing).message(), HasSubstr("a name has"));
  const auto refusal = [&](const std::function<void(v1::Genesis*)>& change) {
    v1::Genesis genesis = good;
    change(&genesis);
    const absl::Status status = CheckInitialState(spec, &worker, genesis);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal([](v1::Genesis* g) { g->mutable_spec()->set_seed(8); }),
              HasSubstr("for another run"));
  EXPECT_THAT(refusal([](v1::Genesis* g) { g->set_state_digest(std::string(31, 's')); }),
              HasSubstr("its digest"));
  EXPECT_THAT(refusal([](v1::Genesis* g) {
                g->mutable_spec()->mutable_data()->set_digest(std::string(31, 'd'));
              }),
              HasSubstr("the data's digest"));
  EXPECT_THAT(refusal([](v1::Genesis* g) { g->mutable_manifest()->set_elements(18); }),
              HasSubstr("initial state"));
  EXPECT_THAT(refusal([](v1::Genesis* g) {
                g->mutable_spec()->mutable_data()->set_digest(std::string(32, 'e'));
              }),
              HasSubstr("data is another"));
  EXPECT_THAT(
      refusal([](v1::Genesis* g) { g->mutable_manifest()->mutable_tensors(0)->set_name("x"); }),
      HasSubstr("tensor 0 is wte"));
}

// Would break: what a peer calls its region goes into every plan and every log.
TEST(CheckHello, ARegionIsAName) {
  v1::RunSpec spec;
  v1::Hello hello;
  hello.set_peer("p");
  EXPECT_TRUE(CheckHello(spec, hello).ok());
  hello.set_region("eu-west");
  EXPECT_TRUE(CheckHello(spec, hello).ok());
  for (const std::string& bad : {std::string("EU"), std::string("a\nb"), std::string(65, 'a')}) {
    hello.set_region(bad);
    EXPECT_THAT(CheckHello(spec, hello).message(), HasSubstr("region")) << bad;
  }
}

// Would break: an operator who is told only "refused".
TEST(CheckWorker, NamesTheFirstDifference) {
  v1::Genesis genesis;
  *genesis.mutable_manifest() = OneTensorManifest();
  genesis.mutable_spec()->mutable_data()->set_digest(std::string(32, 'd'));
  v1::WorkerReady worker;
  *worker.mutable_manifest() = OneTensorManifest();
  worker.set_data_digest(std::string(32, 'd'));
  EXPECT_TRUE(CheckWorker(genesis, worker).ok());
  v1::WorkerReady other = worker;
  other.mutable_manifest()->mutable_tensors(1)->set_shape(0, 6);
  EXPECT_THAT(CheckWorker(genesis, other).message(), HasSubstr("bias [6]"));
  other = worker;
  other.mutable_manifest()->mutable_tensors()->RemoveLast();
  EXPECT_THAT(CheckWorker(genesis, other).message(), HasSubstr("lacks tensor bias"));
  other = worker;
  other.set_data_digest(std::string(32, 'e'));
  EXPECT_THAT(CheckWorker(genesis, other).message(), HasSubstr("6565656565656565"));
  EXPECT_THAT(CheckWorker(genesis, other).message(), HasSubstr("6464646464646464"));
  genesis.mutable_spec()->mutable_model()->set_lora_rank(16);
  for (const uint32_t slice : {0, 4}) {
    genesis.mutable_spec()->mutable_model()->set_lora_slice(slice);
    other = worker;
    EXPECT_TRUE(CheckWorker(genesis, other).ok());
    other.set_lora_rank(8);
    EXPECT_EQ(CheckWorker(genesis, other).ok(), slice == 4);
    other.set_lora_rank(6);
    EXPECT_THAT(CheckWorker(genesis, other).message(), HasSubstr("[worker] lora_rank is 6"));
  }
}

// Would break: a Ready could tell the coordinator what masks are to hide, or come from somebody
// whose mask keys nobody could check.
TEST(CheckReady, OfARunWithMasksTellsNothingOfItsUpdate) {
  v1::RunSpec spec;
  spec.set_run_id("r1");
  spec.mutable_privacy()->set_masked(true);
  const std::string key(32, 'k');
  v1::Ready good;
  good.set_tokens(10);
  good.set_steps(5);
  good.set_state_digest(std::string(32, 's'));
  EXPECT_EQ(CheckReady(spec, "a", key, good), absl::OkStatus());
  EXPECT_THAT(CheckReady(spec, "a", "", good).message(), HasSubstr("needs a signing key"));
  const auto refused = [&](const std::function<void(v1::Ready*)>& change) {
    v1::Ready ready = good;
    change(&ready);
    return CheckReady(spec, "a", key, ready).code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](v1::Ready* r) { r->set_contribution_root(std::string(32, 'r')); }));
  EXPECT_TRUE(refused([](v1::Ready* r) { r->set_signature(std::string(64, 's')); }));
  EXPECT_TRUE(refused([](v1::Ready* r) { r->set_squared_norm_bits(1); }));
  EXPECT_TRUE(refused([](v1::Ready* r) { r->set_squared_distance_bits(1); }));
  EXPECT_TRUE(refused([](v1::Ready* r) { r->clear_state_digest(); }));
  EXPECT_TRUE(refused([](v1::Ready* r) { r->set_tokens(0); }));
}

// Would break: strangers of another run or release become members.
TEST(CheckHello, RefusesStrangers) {
  v1::RunSpec spec;
  spec.set_run_id("r1");
  spec.set_numerics(1);
  v1::Hello good;
  good.set_peer("p-1");
  good.set_numerics(1);
  EXPECT_TRUE(CheckHello(spec, good).ok());
  for (const char* id : {"", "P1", "a b", "p_1", "../x"}) {
    v1::Hello bad = good;
    bad.set_peer(id);
    EXPECT_EQ(CheckHello(spec, bad).code(), absl::StatusCode::kInvalidArgument) << id;
  }
  const auto code = [&](const std::function<void(v1::Hello*)>& change) {
    v1::Hello hello = good;
    change(&hello);
    return CheckHello(spec, hello).code();
  };
  const absl::StatusCode invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code([](v1::Hello* h) { h->set_role("peer"); }), absl::StatusCode::kOk);
  EXPECT_EQ(code([](v1::Hello* h) { h->set_role("king"); }), invalid);
  EXPECT_EQ(code([](v1::Hello* h) { h->set_signing_key(std::string(32, 'k')); }),
            absl::StatusCode::kOk);
  EXPECT_EQ(code([](v1::Hello* h) { h->set_signing_key(std::string(31, 'k')); }), invalid);
  EXPECT_EQ(code([](v1::Hello* h) { h->set_address("a.example:7071"); }), absl::StatusCode::kOk);
  EXPECT_EQ(code([](v1::Hello* h) { h->set_address("unix:/run/atoll.sock"); }), invalid);
  EXPECT_EQ(code([](v1::Hello* h) { h->set_address(std::string(257, 'a') + ":1"); }), invalid);
  v1::Hello aggregator = good;
  aggregator.set_role(kAggregatorRole);
  EXPECT_EQ(CheckHello(spec, aggregator).code(), invalid) << "nobody could dial it";
  aggregator.set_address("a:1");
  EXPECT_TRUE(CheckHello(spec, aggregator).ok());
  EXPECT_EQ(code([](v1::Hello* h) { h->set_has_state(true); }), invalid) << "of which run?";
  v1::Hello other_run = good;
  other_run.set_run_id("r2");
  EXPECT_EQ(CheckHello(spec, other_run).code(), absl::StatusCode::kFailedPrecondition);
  v1::Hello old = good;
  old.set_numerics(0);
  EXPECT_EQ(CheckHello(spec, old).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace atolld
