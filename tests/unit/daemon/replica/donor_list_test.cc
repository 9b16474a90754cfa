#include "daemon/replica/donor_list.h"

#include <gtest/gtest.h>

namespace atolld {
namespace {

using Why = DonorList::Why;

TEST(DonorList, TurnsToTheNextAndSaysWhyNobodyIsLeft) {
  // Broken: a fetch would ask a dead donor for ever, or give up while a good one is left.
  DonorList donors({"a", "b"});
  EXPECT_EQ(donors.current(), "a");
  donors.Leave(Why::kFailed, absl::UnavailableError("refused"));
  EXPECT_EQ(donors.current(), "b");
  donors.Leave(Why::kLacksIt, absl::NotFoundError("dropped"));
  EXPECT_FALSE(donors.any());
  EXPECT_TRUE(absl::IsUnavailable(donors.Verdict())) << donors.Verdict();
  EXPECT_NE(donors.Verdict().message().find("donor a: refused"), std::string::npos);
}

TEST(DonorList, SaysNotFoundOnlyIfEveryDonorLacksIt) {
  // Broken: a replica would take a whole snapshot because one donor was busy.
  DonorList donors({"a", "b"});
  donors.Leave(Why::kLacksIt, absl::NotFoundError("dropped"));
  donors.Leave(Why::kLacksIt, absl::NotFoundError("dropped"));
  EXPECT_TRUE(absl::IsNotFound(donors.Verdict()));
  EXPECT_TRUE(absl::IsUnavailable(DonorList({}).Verdict()));
}

TEST(DonorList, ForgivesFailuresAfterProgressButNeverLies) {
  // Broken: a long fetch over flapping links would run out of donors; a liar would be asked again.
  DonorList donors({"a", "b", "c"});
  donors.Leave(Why::kFailed, absl::UnavailableError("x"));
  donors.Leave(Why::kLied, absl::InvalidArgumentError("x"));
  EXPECT_EQ(donors.current(), "c");
  donors.Progressed();
  donors.Leave(Why::kFailed, absl::UnavailableError("x"));
  EXPECT_EQ(donors.current(), "a");
  donors.Leave(Why::kFailed, absl::UnavailableError("x"));
  EXPECT_FALSE(donors.any());
  donors.AskAgain();
  EXPECT_EQ(donors.current(), "a");
}

}  // namespace
}  // namespace atolld
