// Would break: a token lets two machines in, or none although it was answered; or a string that
// was damaged on its way is taken for a token.
#include "membership/trust/tokens.h"

#include <string>

#include "gmock/gmock.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1800000000);

TEST(EnrolmentBook, TheFirstKeyWinsAndMayComeAgain) {
  EnrolmentBook book({}, {});
  ASSERT_TRUE(book.Create(kNow, "s1", "p1", Role::kPeer, absl::Hours(1)).ok());
  const auto won = book.Spend(kNow, "s1", "key-a");
  ASSERT_TRUE(won.ok()) << won.status();
  EXPECT_EQ("key-a", won->key);
  EXPECT_EQ("p1", won->peer);
  const absl::Status lost = book.Spend(kNow, "s1", "key-b").status();
  EXPECT_TRUE(absl::IsPermissionDenied(lost));
  EXPECT_THAT(std::string(lost.message()), HasSubstr("spent"));
  EXPECT_TRUE(book.Spend(kNow + absl::Minutes(59), "s1", "key-a").ok());
  // What was stored is enough to go on from.
  EnrolmentBook again({*won}, {});
  EXPECT_TRUE(again.Spend(kNow, "s1", "key-a").ok());
  EXPECT_FALSE(again.Spend(kNow, "s1", "key-b").ok());
  EXPECT_EQ("spent", EnrolmentBook::StateOf(*won, kNow));
}

TEST(EnrolmentBook, RefusesWhatIsNotOpen) {
  EnrolmentBook book({}, {});
  ASSERT_TRUE(book.Create(kNow, "s1", "p1", Role::kPeer, absl::Hours(1)).ok());
  EXPECT_THAT(std::string(book.Spend(kNow, "s2", "k").status().message()),
              HasSubstr("not one of this coordinator's"));
  EXPECT_THAT(std::string(book.Spend(kNow + absl::Minutes(61), "s1", "k").status().message()),
              HasSubstr("expired"));
  ASSERT_TRUE(book.Revoke("s1").ok());
  EXPECT_THAT(std::string(book.Spend(kNow, "s1", "k").status().message()), HasSubstr("revoked"));
  EXPECT_TRUE(absl::IsNotFound(book.Revoke("s2").status()));
  ASSERT_EQ(1u, book.tokens().size());
  EXPECT_EQ("revoked", EnrolmentBook::StateOf(book.tokens()[0], kNow));
}

TEST(EnrolmentBook, ChecksWhatIsCreated) {
  EnrolmentBook book({}, {});
  const auto create = [&](const std::string& peer, Role role, absl::Duration valid) {
    return book.Create(kNow, "s", peer, role, valid).status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(create("P 1", Role::kPeer, absl::Hours(1))));
  EXPECT_TRUE(absl::IsInvalidArgument(create("", Role::kPeer, absl::Hours(1))));
  EXPECT_TRUE(absl::IsInvalidArgument(create("p", Role::kAdmin, absl::Hours(1))));
  EXPECT_TRUE(absl::IsInvalidArgument(create("p", Role::kCoordinator, absl::Hours(1))));
  EXPECT_TRUE(absl::IsInvalidArgument(create("p", Role::kPeer, absl::ZeroDuration())));
  EXPECT_TRUE(absl::IsInvalidArgument(create("p", Role::kPeer, absl::Hours(24 * 31))));
  EXPECT_TRUE(book.tokens().empty());
  for (size_t i = 0; i < EnrolmentBook::kMostOpenTokens; ++i) {
    ASSERT_TRUE(book.Create(kNow, std::to_string(i), "p", Role::kAggregator, absl::Hours(1)).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(create("p", Role::kPeer, absl::Hours(1))));
  EXPECT_TRUE(book.Create(kNow + absl::Hours(2), "s", "p", Role::kPeer, absl::Hours(1)).ok());
}

TEST(EnrolmentBook, AnEvictionRevokesAllOfAPeersCertificates) {
  EnrolmentBook book({}, {{"old", "p1", false}});
  EXPECT_FALSE(book.Note({"old", "p1", false}));
  EXPECT_TRUE(book.Note({"new", "p1", false}));
  EXPECT_TRUE(book.Note({"other", "p2", false}));
  EXPECT_EQ(2u, book.SetRevoked("p1", true).size());
  EXPECT_TRUE(book.SetRevoked("p1", true).empty());
  EXPECT_TRUE(book.Revoked("old"));
  EXPECT_TRUE(book.Revoked("new"));
  EXPECT_FALSE(book.Revoked("other"));
  EXPECT_FALSE(book.Revoked("never seen"));
  EXPECT_EQ(2u, book.SetRevoked("p1", false).size());
  EXPECT_FALSE(book.Revoked("old"));
}

// The book would grow for ever, and what is forgotten too early would let somebody back in.
TEST(EnrolmentBook, ForgetsWhatTimeAloneRefuses) {
  const auto at = [](absl::Time time) { return absl::ToUnixSeconds(time); };
  const absl::Duration day = absl::Hours(24);
  EnrolmentBook book({{"t-old", "p1", "peer", at(kNow - 31 * day)},
                      {"t-late", "p1", "peer", at(kNow - 29 * day), false, "key"},
                      {"t-open", "p1", "peer", at(kNow + day)}},
                     {{"c-old", "p1", true, at(kNow - 2 * day)},
                      {"c-late", "p1", true, at(kNow - day / 2)},
                      {"c-good", "p1", true, at(kNow + day)},
                      {"c-unknown", "p1", true}});
  const EnrolmentBook::Purged purged = book.Purge(kNow, 90 * day);
  EXPECT_THAT(purged.forgotten, ::testing::ElementsAre("t-old", "c-old"));
  ASSERT_EQ(1u, purged.changed.size()) << "an older release's";
  EXPECT_EQ("c-unknown", purged.changed[0].serial);
  EXPECT_EQ(at(kNow + 90 * day), purged.changed[0].expires);
  EXPECT_TRUE(purged.changed[0].revoked);
  EXPECT_EQ(2u, book.tokens().size());
  EXPECT_FALSE(book.Revoked("c-old"));
  for (const char* kept : {"c-late", "c-good", "c-unknown"}) EXPECT_TRUE(book.Revoked(kept));
  const EnrolmentBook::Purged again = book.Purge(kNow, 90 * day);
  EXPECT_TRUE(again.changed.empty() && again.forgotten.empty());
  EXPECT_EQ(5u, book.Purge(kNow + 92 * day, 90 * day).forgotten.size());
}

v1::JoinToken Token() {
  v1::JoinToken token;
  token.set_address("192.0.2.1:7070");
  token.set_authority("authority");
  token.set_certificate("certificate");
  token.set_key("key");
  token.set_expires_unix_seconds(1800000000);
  return token;
}

TEST(JoinToken, RoundTripWithWhiteSpaceAround) {
  const std::string text = FormatJoinToken(Token());
  EXPECT_THAT(text, ::testing::StartsWith("atoll1-"));
  EXPECT_EQ(std::string::npos, text.find_first_of(" \n+/"));
  const auto parsed = ParseJoinToken(" \n" + text + "\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(Token().SerializeAsString(), parsed->SerializeAsString());
}

TEST(JoinToken, SaysInOneLineWhatIsWrong) {
  const std::string good = FormatJoinToken(Token());
  v1::JoinToken no_key = Token();
  no_key.clear_key();
  const std::pair<std::string, std::string> cases[] = {
      {"", "is empty"},
      {" \n", "is empty"},
      {"hello", "does not begin with atoll1-"},
      {"atoll2-" + good.substr(7), "does not begin with atoll1-"},
      {"atoll1-", "too few"},
      {"atoll1-AAAA", "too few"},
      {"atoll1-!!!!", "cannot hold"},
      {good.substr(0, good.size() / 2), "is damaged"},
      {good + good, "is damaged"},
      {std::string(kLongestJoinToken + 1, 'a'), "characters, more than"},
      {FormatJoinToken(no_key), "lacks"},
      {FormatJoinToken(v1::JoinToken()), "too few"},
  };
  for (const auto& [text, what] : cases) {
    const absl::Status status = ParseJoinToken(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    EXPECT_THAT(std::string(status.message()), HasSubstr("`atoll token create` prints one"));
    EXPECT_EQ(std::string::npos, std::string(status.message()).find('\n'));
    EXPECT_LT(status.message().size(), 200u) << "it repeats a secret";
  }
  // Any one character changed.
  for (size_t at = 0; at < good.size(); ++at) {
    std::string changed = good;
    changed[at] = changed[at] == 'A' ? 'B' : 'A';
    const auto parsed = ParseJoinToken(changed);
    if (parsed.ok()) {
      EXPECT_EQ(Token().SerializeAsString(), parsed->SerializeAsString()) << at;
    }
  }
}

}  // namespace
}  // namespace atolld
