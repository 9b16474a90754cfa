#include "membership/history/header.h"

#include <gmock/gmock.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <set>

#include "absl/base/casts.h"
#include "tests/unit/daemon/replica/state/test_run.h"
#include "tests/unit/membership/history/records_text.h"

namespace atolld {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using ::testing::HasSubstr;

// Changes the value of one scalar field (of one element, if it is repeated).
void Change(Message* message, const FieldDescriptor* field) {
  const Reflection& access = *message->GetReflection();
  const bool many = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      if (many)
        return access.SetRepeatedUInt32(message, field, 0,
                                        access.GetRepeatedUInt32(*message, field, 0) + 1);
      return access.SetUInt32(message, field, access.GetUInt32(*message, field) + 1);
    case FieldDescriptor::CPPTYPE_UINT64:
      if (many)
        return access.SetRepeatedUInt64(message, field, 0,
                                        access.GetRepeatedUInt64(*message, field, 0) + 1);
      return access.SetUInt64(message, field, access.GetUInt64(*message, field) + 1);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (many) return access.SetRepeatedDouble(message, field, 0, 4);
      return access.SetDouble(message, field, access.GetDouble(*message, field) + 0.5);
    case FieldDescriptor::CPPTYPE_BOOL:
      return access.SetBool(message, field, !access.GetBool(*message, field));
    case FieldDescriptor::CPPTYPE_STRING:
      if (many) return access.SetRepeatedString(message, field, 0, "z");
      return access.SetString(message, field, access.GetString(*message, field) + "x");
    default:
      FAIL() << "a field of a new type: " << field->full_name();
  }
}

// Of a lineage's earlier ones, which have none of their own (CheckLineage).
bool IsDeeper(const FieldDescriptor* field, int depth) {
  return field->full_name() == "atolld.v1.Lineage.earlier" && depth > 0;
}

// Makes sure that every repeated field has an element and every message is there.
void FillOut(Message* message, int earlier = 0) {
  const Reflection& access = *message->GetReflection();
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message->GetDescriptor()->field(i);
    if (IsDeeper(field, earlier)) continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (field->is_repeated()) {
        if (access.FieldSize(*message, field) == 0) access.AddMessage(message, field);
        const bool again = field->message_type() == message->GetDescriptor();
        FillOut(access.MutableRepeatedMessage(message, field, 0), again ? earlier + 1 : 0);
      } else {
        FillOut(access.MutableMessage(message, field));
      }
    } else if (field->is_repeated() && access.FieldSize(*message, field) == 0) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        access.AddString(message, field, "y");
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
        access.AddDouble(message, field, 3);
      } else {
        access.AddUInt64(message, field, 3);
      }
    }
  }
}

// Calls `changed` for each copy of `root` in which one field, at any depth, is another.
void ForEachChange(Message* root, Message* part,
                   const std::function<void(const std::string& field)>& changed, int earlier = 0) {
  const Reflection& access = *part->GetReflection();
  for (int i = 0; i < part->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = part->GetDescriptor()->field(i);
    if (IsDeeper(field, earlier)) continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const bool again = field->message_type() == part->GetDescriptor();
      ForEachChange(root,
                    field->is_repeated() ? access.MutableRepeatedMessage(part, field, 0)
                                         : access.MutableMessage(part, field),
                    changed, again ? earlier + 1 : 0);
      if (field->is_repeated()) {
        access.AddMessage(part, field);
        changed(field->full_name() + " (one more)");
        access.RemoveLast(part, field);
      }
      continue;
    }
    const std::string before = root->SerializeAsString();
    std::unique_ptr<Message> copy(part->New());
    copy->CopyFrom(*part);
    Change(part, field);
    changed(field->full_name());
    part->CopyFrom(*copy);
    ASSERT_EQ(root->SerializeAsString(), before);
  }
}

TEST(HeaderDigest, ChangesWithEveryFieldButTheSignature) {
  // Broken: a field that is added to run.proto and forgotten in the digest could be forged.
  v1::EntryHeader header;
  FillOut(&header);
  std::set<Digest> seen = {HeaderDigest(header)};
  ForEachChange(&header, &header, [&](const std::string& field) {
    const bool is_new = seen.insert(HeaderDigest(header)).second;
    EXPECT_EQ(is_new, field != "atolld.v1.EntryHeader.signature") << field;
  });
  EXPECT_GT(seen.size(), 20u);
}

TEST(GenesisDigest, ChangesWithEveryField) {
  // Broken: peers could train different runs under one digest.
  v1::Genesis genesis;
  FillOut(&genesis);
  std::set<Digest> seen = {GenesisDigest(genesis)};
  ForEachChange(&genesis, &genesis, [&](const std::string& field) {
    EXPECT_TRUE(seen.insert(GenesisDigest(genesis)).second) << field;
  });
  EXPECT_GT(seen.size(), 35u);
}

TEST(Scalars, KeepTheirBits) {
  // Broken: replicas would step with scalars that differ in the last bit.
  const OuterScalars scalars = {{"learning_rate", 0.7f}, {"tiny", 1e-42f}, {"zero", -0.0f}};
  v1::EntryHeader header;
  SetScalars(scalars, &header);
  const OuterScalars back = ScalarsOf(header);
  ASSERT_EQ(back.size(), scalars.size());
  for (const auto& [name, value] : scalars) {
    EXPECT_EQ(std::memcmp(&back.at(name), &value, sizeof value), 0) << name;
  }
}

class CheckHeaderTest : public ::testing::Test {
 protected:
  CheckHeaderTest() {
    genesis_ = run_.Genesis();
    genesis_.set_state_digest(ToBytes(state_));
    previous_ = GenesisDigest(genesis_);
    header_ = run_.Header(1, previous_, state_, run_.Payload(1));
  }

  absl::Status Check() const { return CheckHeader(genesis_, 0, previous_, header_); }

  void ExpectInvalid(const std::string& message) {
    const absl::Status status = Check();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_THAT(std::string(status.message()), HasSubstr("entry 1"));
    header_ = run_.Header(1, previous_, state_, run_.Payload(1));
  }

  v1::ShardRecord* shard() { return header_.mutable_records()->mutable_shards(0); }
  v1::ContributorSet* set(int number) { return header_.mutable_records()->mutable_sets(number); }

  TestRun run_;
  Digest state_ = Sha256({});
  v1::Genesis genesis_;
  Digest previous_;
  v1::EntryHeader header_;
};

TEST_F(CheckHeaderTest, TakesAnHonestHeader) {
  // Broken: no run could commit.
  EXPECT_TRUE(Check().ok()) << Check();
}

TEST_F(CheckHeaderTest, RefusesWhatDoesNotFollow) {
  // Broken: a replica could skip a version, step twice, or take another run's entries.
  header_.set_version(2);
  header_.set_base_version(1);
  EXPECT_TRUE(absl::IsFailedPrecondition(Check())) << Check();
  header_ = run_.Header(1, Sha256({}), state_, run_.Payload(1));
  EXPECT_TRUE(absl::IsFailedPrecondition(Check())) << Check();
  header_ = run_.Header(1, previous_, state_, run_.Payload(1));
  header_.set_run_id("other-run");
  EXPECT_TRUE(absl::IsFailedPrecondition(Check())) << Check();
  header_ = run_.Header(1, previous_, state_, run_.Payload(1));
  genesis_.mutable_spec()->set_rounds(0);
  EXPECT_TRUE(absl::IsFailedPrecondition(Check())) << Check();
}

TEST_F(CheckHeaderTest, RefusesShapesThatAreNotTheRuns) {
  // Broken: a forged header could make the outer step read or write out of bounds.
  header_.set_range_offset(1);
  ExpectInvalid("covers values");
  header_.set_range_elements(std::numeric_limits<uint64_t>::max());
  ExpectInvalid("covers values");
  header_.set_base_version(1);
  ExpectInvalid("base");
  header_.set_apply_step(1);
  ExpectInvalid("base");
  header_.set_chunk_elements(0);
  ExpectInvalid("chunks have");
  header_.set_codec("fp32");
  ExpectInvalid("codec");
  header_.set_outer_rule("average");
  ExpectInvalid("outer rule");
  header_.set_payload_digest("short");
  ExpectInvalid("payload");
  header_.set_previous_state_digest("");
  ExpectInvalid("state");
  header_.set_previous_header_digest("");
  ExpectInvalid("previous header");
}

TEST_F(CheckHeaderTest, AnEntryCoversTheFragmentWhoseTurnItIs) {
  // Broken: a header could step other values than the run's order says, or more than there are; or
  // a header without fragments would have another digest than old logs know.
  header_.set_fragments(1);
  ExpectInvalid("its turn is of all values");
  EXPECT_EQ(header_.fragments(), 0u);
  run_.elements = 1001;
  run_.fragments = 2;
  genesis_ = run_.Genesis();
  genesis_.set_state_digest(ToBytes(state_));
  previous_ = GenesisDigest(genesis_);
  header_ = run_.Header(1, previous_, state_, run_.Payload(1));
  EXPECT_TRUE(Check().ok()) << Check();
  header_.set_fragment(1);
  ExpectInvalid("its turn is fragment 0 of 2");
  header_.set_fragments(0);
  ExpectInvalid("its turn is fragment 0 of 2");
  header_.set_range_elements(501);
  ExpectInvalid("fragment 0 of 2 has 500");
  header_.set_range_offset(1);
  ExpectInvalid("counted from 0 on");
  v1::EntryHeader second = run_.Header(2, HeaderDigest(header_), state_, run_.Payload(2));
  EXPECT_EQ(second.range_elements(), 501u);
  EXPECT_TRUE(CheckHeader(genesis_, 1, HeaderDigest(header_), second).ok());
  v1::EntryHeader plain = second;
  plain.clear_fragment();
  plain.clear_fragments();
  EXPECT_NE(HeaderDigest(plain), HeaderDigest(second));
}

TEST_F(CheckHeaderTest, AGenesisWithMoreFragmentsThanCanBeMadeIsNone) {
  // Broken: peers would crash at the first entry, or cover values twice.
  run_.fragments = 2;
  EXPECT_TRUE(CheckGenesis(run_.Genesis()).ok()) << CheckGenesis(run_.Genesis());
  run_.fragments = 3;  // of two small tensors
  EXPECT_THAT(std::string(CheckGenesis(run_.Genesis()).message()), HasSubstr("fragments = 3"));
}

TEST_F(CheckHeaderTest, RefusesContributorsThatNobodyIs) {
  // Broken: weights of zero, infinity or NaN would divide the mean to nothing.
  header_.clear_contributors();
  ExpectInvalid("0 contributors");
  for (const uint32_t bits : {0u, 0x80000000u, 0xbf800000u, 0x7f800000u, 0x7fc00000u}) {
    header_.mutable_contributors(1)->set_weight_bits(bits);
    ExpectInvalid("weight");
  }
  header_.mutable_contributors(1)->set_peer("p1");
  ExpectInvalid("twice");
  header_.mutable_contributors(1)->set_peer("");
  ExpectInvalid("name");
}

TEST_F(CheckHeaderTest, RefusesShardsThatDoNotTileTheGrid) {
  // Broken: an independent program could not tell whose chunks a mean was taken over.
  header_.mutable_records()->clear_shards();
  ExpectInvalid("shards hold 0");
  shard()->set_first_chunk(1);
  ExpectInvalid("begins at chunk 1");
  shard()->set_chunks(5);
  ExpectInvalid("5 chunks");
  shard()->set_chunks(3);
  ExpectInvalid("its runs have 4 chunks");
  shard()->set_chunks(3);
  shard()->mutable_runs(0)->set_chunks(2);
  ExpectInvalid("shards hold 3");
  shard()->set_chunks(0);
  ExpectInvalid("0 chunks");
  shard()->set_reducer("");
  ExpectInvalid("reducer");
  set(0)->set_contributors("");
  ExpectInvalid("set 0: a bitmap of 0 bytes");
  set(0)->set_contributors(std::string(1, '\0'));
  ExpectInvalid("empty");
  set(0)->set_contributors(std::string(1, '\x08'));
  ExpectInvalid("beyond the last");
  set(1)->set_contributors(std::string(2, '\1'));
  ExpectInvalid("set 1: a bitmap of 2 bytes");
}

TEST_F(CheckHeaderTest, RefusesRecordsThatAreWrittenInAnotherWay) {
  // Broken: equal votes would count as different ones, and one entry could have two digests; a
  // header could be made as long as one likes by sets that no chunk has.
  set(1)->set_contributors(set(0)->contributors());
  ExpectInvalid("set 1 is there twice");
  *header_.mutable_records()->add_sets() = *set(0);
  ExpectInvalid("3 sets, of which runs name 2");
  shard()->mutable_runs(0)->set_set(1);
  ExpectInvalid("it names set 1, and the next one is 0");
  shard()->mutable_runs(1)->set_set(2);
  ExpectInvalid("it names set 2, and the next one is 1");
  shard()->mutable_runs(1)->set_set(0);
  ExpectInvalid("are of one set");
  shard()->mutable_runs(0)->set_chunks(4);
  shard()->mutable_runs(1)->set_chunks(0);
  ExpectInvalid("a run of 0 chunks");
  shard()->mutable_runs(1)->set_chunks(0xffffffff);
  ExpectInvalid("its runs have 4294967298 chunks");
}

// Would break: an entry counts a range of the data for two of its contributors.
TEST_F(CheckHeaderTest, RefusesSamplesThatTwoContributorsSpend) {
  v1::EntryHeader& header = header_;
  ASSERT_GE(header.contributors_size(), 2);
  const auto add = [&](int contributor, uint64_t first, uint64_t count) {
    v1::SampleRange* range = header.mutable_contributors(contributor)->add_samples();
    range->set_first(first);
    range->set_count(count);
  };
  add(0, 10, 5);
  add(0, 20, 5);
  add(1, 15, 5);
  EXPECT_TRUE(Check().ok()) << Check();
  add(1, 24, 1);
  EXPECT_THAT(Check().message(), HasSubstr("another contributor's too"));
  header.mutable_contributors(1)->mutable_samples(1)->set_first(12);
  EXPECT_THAT(Check().message(), HasSubstr("not in ascending order"));
}

// Would break: an entry is replayed whose mean counted one peer twice.
TEST_F(CheckHeaderTest, RefusesPartialMeansThatOverlap) {
  v1::EntryHeader& header = header_;
  ASSERT_EQ(header.contributors_size(), 3);
  *header.mutable_records() = RecordsOf({{"p2", {{4, "\x03", {"\x03"}}}}});
  EXPECT_TRUE(Check().ok()) << Check();
  set(0)->add_partials("\x02");
  EXPECT_THAT(Check().message(), HasSubstr("its partial means overlap"));
  set(0)->mutable_partials()->RemoveLast();
  set(0)->set_partials(0, "\x04");  // no contributor of this shard
  EXPECT_THAT(Check().message(), HasSubstr("its partial means overlap"));
}

TEST_F(CheckHeaderTest, TakesAShardWhoseEveryChunkHasASetOfItsOwn) {
  // Broken: the header of a round in which every chunk lost another contributor would be refused by
  // all.
  *header_.mutable_records() =
      RecordsOf({{"p2", {{1, "\x07"}, {1, "\x03"}, {1, "\x05"}, {1, "\x06"}}}});
  EXPECT_TRUE(Check().ok()) << Check();
  EXPECT_EQ(SetOfChunk(header_.records(), 2).contributors(), "\x05");
}

TEST_F(CheckHeaderTest, RefusesAgesWhereNoneCounts) {
  // Broken: headers of runs in step could differ in what nothing follows from.
  header_.mutable_contributors(0)->set_age(1);
  ExpectInvalid("counts no ages");
  genesis_.mutable_spec()->mutable_mode()->set_kind("async");
  header_.mutable_contributors(0)->set_age(1);
  EXPECT_TRUE(Check().ok()) << Check();
}

TEST_F(CheckHeaderTest, RefusesASlowCodecWhereTheRunHasNone) {
  // Broken: a header could say of an update what no reader of the run's record can make sense of.
  header_.mutable_contributors(0)->set_slow_codec(true);
  ExpectInvalid("the run has none");
  genesis_.mutable_spec()->mutable_exchange()->set_slow_codec("int4");
  header_.mutable_contributors(0)->set_slow_codec(true);
  EXPECT_TRUE(Check().ok()) << Check();
}

TEST_F(CheckHeaderTest, RefusesScalarsOutOfOrderOrNotFinite) {
  // Broken: the same scalars could be written in two ways, and a NaN among them would reach every
  // replica.
  *header_.add_scalars() = header_.scalars(0);
  ExpectInvalid("order");
  header_.mutable_scalars(0)->set_bits(0x7f800000u);
  ExpectInvalid("not finite");
}

TEST_F(CheckHeaderTest, RefusesScalesAndRulesThatAreNotTheRuns) {
  // Broken: a forged header could say that the mean was made otherwise than it was, and whoever
  // recomputes it would blame the reducers.
  for (const float scale : {-0.5f, 1.5f, std::numeric_limits<float>::quiet_NaN()}) {
    header_.mutable_contributors(0)->set_scale_bits(absl::bit_cast<uint32_t>(scale));
    ExpectInvalid("scale");
  }
  header_.mutable_contributors(0)->set_scale_bits(0x3f000000);  // 0.5
  EXPECT_TRUE(Check().ok()) << Check();
  header_.set_aggregation("median");
  ExpectInvalid("made one by median");
  header_.set_faulty(1);
  ExpectInvalid("faulty = 1");
  header_.set_clipping_steps(1);
  ExpectInvalid(" in 1 step, ");
}

// -----------------------------------------------------------------------------------------------
// What a run may begin with.

TEST(CheckGenesis, RefusesRulesThatNoExchangeCarriesOut) {
  // Broken: a run would begin whose first exchange ends the process.
  v1::Genesis genesis = TestRun().Genesis();
  EXPECT_TRUE(CheckGenesis(genesis).ok());
  v1::ExchangeSpec* exchange = genesis.mutable_spec()->mutable_exchange();
  exchange->set_aggregation("krum");
  EXPECT_FALSE(CheckGenesis(genesis).ok()) << "of no liars";
  exchange->set_faulty(1);
  EXPECT_TRUE(CheckGenesis(genesis).ok());
  exchange->set_aggregation("centred_clipping");
  EXPECT_FALSE(CheckGenesis(genesis).ok()) << "without clip";
  exchange->set_clip_bits(0x3f800000);
  EXPECT_TRUE(CheckGenesis(genesis).ok());
  exchange->set_clipping_steps(2);
  EXPECT_FALSE(CheckGenesis(genesis).ok());
  exchange->set_clipping_steps(1);
  exchange->set_clip_bits(0xbf800000);
  EXPECT_FALSE(CheckGenesis(genesis).ok()) << "a factor below 0";
}

TEST(CheckGenesis, RefusesAModeThatItDoesNotKnow) {
  // Broken: a peer would take part in a run of a later release by the rules of another mode.
  v1::Genesis genesis = TestRun().Genesis();
  genesis.mutable_spec()->mutable_mode()->set_kind("eager");
  EXPECT_TRUE(CheckGenesis(genesis).ok()) << CheckGenesis(genesis);
  genesis.mutable_spec()->mutable_mode()->set_kind("eagre");
  EXPECT_THAT(std::string(CheckGenesis(genesis).message()), HasSubstr("unknown mode \"eagre\""));
}

TEST(CheckGenesis, RefusesManifestsThatDoNotAddUp) {
  // Broken: a worker's tensors would lie over one another in the flat vector.
  const TestRun run;
  EXPECT_TRUE(CheckGenesis(run.Genesis()).ok());
  const auto refused = [&](const std::function<void(v1::Genesis&)>& change) {
    v1::Genesis genesis = run.Genesis();
    change(genesis);
    return absl::IsInvalidArgument(CheckGenesis(genesis));
  };
  EXPECT_TRUE(refused([](v1::Genesis& g) { g.mutable_manifest()->set_elements(999); }));
  EXPECT_TRUE(refused([](v1::Genesis& g) { g.mutable_manifest()->clear_tensors(); }));
  EXPECT_TRUE(
      refused([](v1::Genesis& g) { g.mutable_manifest()->mutable_tensors(1)->set_offset(1); }));
  EXPECT_TRUE(refused(
      [](v1::Genesis& g) { g.mutable_manifest()->mutable_tensors(1)->set_name("wte.weight"); }));
  EXPECT_TRUE(refused([](v1::Genesis& g) {
    // 2^32 * 2^32 values: the product overflows to 0.
    v1::Tensor& tensor = *g.mutable_manifest()->mutable_tensors(0);
    tensor.set_shape(0, uint64_t{1} << 32);
    tensor.set_shape(1, uint64_t{1} << 32);
  }));
  EXPECT_TRUE(refused([](v1::Genesis& g) { g.mutable_spec()->set_run_id("No Such Run"); }));
  EXPECT_TRUE(refused([](v1::Genesis& g) { g.mutable_spec()->set_numerics(2); }));
  EXPECT_TRUE(
      refused([](v1::Genesis& g) { g.mutable_spec()->mutable_exchange()->set_codec("x"); }));
  EXPECT_TRUE(refused([](v1::Genesis& g) {
    g.mutable_spec()->mutable_exchange()->set_codec("topk");
    g.mutable_spec()->mutable_exchange()->set_stochastic_rounding(true);
  }));
  const auto upper = [&](const char* updates, const char* means, bool stochastic) {
    return refused([&](v1::Genesis& g) {
      g.mutable_spec()->mutable_exchange()->set_codec(updates);
      g.mutable_spec()->mutable_exchange()->set_upper_codec(means);
      g.mutable_spec()->mutable_exchange()->set_stochastic_rounding(stochastic);
    });
  };
  EXPECT_TRUE(upper("int8", "x", false));
  EXPECT_TRUE(upper("int8", "topk", false));
  EXPECT_TRUE(upper("topk", "int2", false));
  EXPECT_TRUE(upper("bf16", "fp16", true));
  EXPECT_FALSE(upper("bf16", "int4", true));
  EXPECT_FALSE(upper("topk", "int8", false));
  for (const uint32_t bits : {0x40000000u, 0x7fc00000u, 0xbf800000u, 0x80000000u}) {
    EXPECT_TRUE(refused([bits](v1::Genesis& g) {
      g.mutable_spec()->mutable_exchange()->set_feedback_decay_bits(bits);
    })) << bits;
  }
  EXPECT_TRUE(refused([](v1::Genesis& g) { g.mutable_spec()->mutable_outer()->set_rule("x"); }));
  EXPECT_TRUE(
      refused([](v1::Genesis& g) { g.mutable_spec()->mutable_exchange()->set_chunk_elements(0); }));
  EXPECT_TRUE(refused([](v1::Genesis& g) { g.set_state_digest("short"); }));
}

}  // namespace
}  // namespace atolld
