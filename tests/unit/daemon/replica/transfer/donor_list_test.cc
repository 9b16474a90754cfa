#include "daemon/replica/transfer/donor_list.h"

#include <gtest/gtest.h>

namespace atolld {
namespace {

using Why = DonorList::Why;

TEST(DonorList, TurnsToTheNextAndSaysWhyNobodyIsLeft) {
  // Broken: a fetch would ask a dead donor for ever, or give up while a good one is left.
  DonorList donors({"a", "b"});
  EXPECT_EQ(donors.Take(), "a");
  donors.Leave("a", Why::kFailed, absl::UnavailableError("refused"));
  EXPECT_EQ(donors.Take(), "b");
  donors.Leave("b", Why::kLacksIt, absl::NotFoundError("dropped"));
  EXPECT_EQ(donors.Take(), std::nullopt);
  EXPECT_TRUE(absl::IsUnavailable(donors.Verdict())) << donors.Verdict();
  EXPECT_NE(donors.Verdict().message().find("donor a: refused"), std::string::npos);
}

TEST(DonorList, SaysNotFoundOnlyIfEveryDonorLacksIt) {
  // Broken: a replica would take a whole snapshot because one donor was busy.
  DonorList donors({"a", "b"});
  for (const char* name : {"a", "b"}) {
    EXPECT_EQ(donors.Take(), name);
    donors.Leave(name, Why::kLacksIt, absl::NotFoundError("dropped"));
  }
  EXPECT_TRUE(absl::IsNotFound(donors.Verdict()));
  EXPECT_TRUE(absl::IsUnavailable(DonorList({}).Verdict()));
}

TEST(DonorList, ForgivesFailuresAfterProgressButNeverLies) {
  // Broken: a long fetch over flapping links would run out of donors; a liar would be asked again.
  DonorList donors({"a", "b", "c"});
  EXPECT_EQ(donors.Take(), "a");
  EXPECT_EQ(donors.Take(), "b");
  EXPECT_EQ(donors.Take(), "c");
  EXPECT_EQ(donors.Take(), std::nullopt);
  donors.Leave("a", Why::kFailed, absl::UnavailableError("x"));
  donors.Leave("b", Why::kLied, absl::InvalidArgumentError("x"));
  EXPECT_EQ(donors.Take(), std::nullopt);
  donors.Progressed();
  EXPECT_EQ(donors.Take(), std::nullopt) << "dialled again at each block while another gives";
  for (int i = 0; i < 1000; ++i) donors.Progressed();
  EXPECT_EQ(donors.Take(), "a");
  donors.Leave("a", Why::kFailed, absl::UnavailableError("x"));
  donors.Leave("c", Why::kFailed, absl::UnavailableError("x"));
  EXPECT_EQ(donors.Take(), std::nullopt) << "nobody has given anything since";
  donors.AskAgain();
  EXPECT_EQ(donors.Take(), "a");
  EXPECT_EQ(donors.Take(), "c");
  EXPECT_EQ(donors.Take(), std::nullopt);
}

TEST(DonorList, TakesInWhoComesAndForgetsWhoGoes) {
  // Broken: a joiner could not use the donors that joined meanwhile, or would dial the dead; a liar
  // could come back under a new roster.
  DonorList donors({"a", "liar"});
  EXPECT_EQ(donors.Take(), "a");
  EXPECT_EQ(donors.Take(), "liar");
  donors.Leave("liar", Why::kLied, absl::InvalidArgumentError("x"));
  donors.Set({"b"});
  EXPECT_EQ(donors.asked(), 1u);
  EXPECT_EQ(donors.Take(), "b");
  donors.Release("a");
  EXPECT_EQ(donors.Take(), std::nullopt);
  donors.Set({"a", "b", "liar"});
  EXPECT_EQ(donors.Take(), "a");
  EXPECT_EQ(donors.Take(), std::nullopt);
}

}  // namespace
}  // namespace atolld
