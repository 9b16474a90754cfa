#include "membership/admission.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

v1::Manifest MakeManifest() {
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
  EXPECT_TRUE(CheckManifest(MakeManifest()).ok());
  EXPECT_FALSE(CheckManifest(v1::Manifest()).ok());
  v1::Manifest gap = MakeManifest();
  gap.mutable_tensors(1)->set_offset(13);
  EXPECT_THAT(CheckManifest(gap).message(), HasSubstr("tensor bias"));
  v1::Manifest sum = MakeManifest();
  sum.set_elements(18);
  EXPECT_FALSE(CheckManifest(sum).ok());
  v1::Manifest overflow = MakeManifest();
  for (int i = 0; i < 4; ++i) overflow.mutable_tensors(0)->add_shape(uint64_t{1} << 62);
  EXPECT_FALSE(CheckManifest(overflow).ok());
  v1::Manifest empty = MakeManifest();
  empty.mutable_tensors(0)->set_shape(0, 0);
  EXPECT_FALSE(CheckManifest(empty).ok());
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
  *genesis.mutable_manifest() = MakeManifest();
  genesis.mutable_spec()->mutable_data()->set_digest(std::string(32, 'd'));
  v1::WorkerReady worker;
  *worker.mutable_manifest() = MakeManifest();
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
  v1::Hello other_run = good;
  other_run.set_run_id("r2");
  EXPECT_EQ(CheckHello(spec, other_run).code(), absl::StatusCode::kFailedPrecondition);
  v1::Hello old = good;
  old.set_numerics(0);
  EXPECT_EQ(CheckHello(spec, old).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace atolld
