#include "membership/history/digest.h"

#include <gtest/gtest.h>

#include <numeric>

#include "compression/simd.h"
#include "membership/history/sha256.h"

namespace atolld {
namespace {

absl::Span<const uint8_t> Bytes(absl::string_view text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

TEST(Digest, IsSha256) {
  // Broken: no digest of ours could be checked by another program.
  EXPECT_EQ(ToHex(Sha256(Bytes("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(ToHex(Sha256({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Digest, ManySideBySideAreTheSameAsEachAlone) {
  // Broken: a digest would depend on how many were taken with it, and on the CPU's registers.
  std::vector<uint8_t> bytes(200 * 200);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * i >> 5);
  for (size_t count = 0; count <= 100; ++count) {
    std::vector<absl::Span<const uint8_t>> pieces;
    for (size_t i = 0; i < count; ++i) {
      const size_t length = i == 50 ? 20 : count + (i >= 70 ? 1 : 0);
      pieces.push_back(absl::MakeConstSpan(bytes).subspan(i * 200 + i % 7, length));
    }
    const std::vector<Digest> digests = Sha256Each(pieces);
    ASSERT_EQ(digests.size(), count);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(digests[i], Sha256(pieces[i])) << i;
  }
}

TEST(Digest, EveryTargetsLanesGiveSha256) {
  // Broken: peers on different CPUs would disagree about what they hold.
  std::vector<uint8_t> bytes(16 * 301);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * i >> 5);
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget pinned(target);
    const size_t lanes = Sha256Lanes();
    ASSERT_LE(lanes, 16u);
    for (size_t length = 0; length <= 300; ++length) {
      std::vector<const uint8_t*> pieces;
      for (size_t i = 0; i < lanes; ++i) pieces.push_back(bytes.data() + i * 301);
      std::vector<Digest> digests(lanes);
      Sha256InVectors(pieces, length, absl::MakeSpan(digests));
      for (size_t i = 0; i < lanes; ++i) {
        ASSERT_EQ(digests[i], Sha256({pieces[i], length})) << target << ' ' << length << ' ' << i;
      }
    }
  }
}

TEST(Digest, APairBySha256InstructionsIsSha256) {
  // Broken: peers with and without the instructions would disagree about what they hold.
  if (!HasSha256Pair()) GTEST_SKIP() << "this CPU has no SHA instructions";
  std::vector<uint8_t> bytes(2 * 401);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * i >> 5);
  for (size_t length = 0; length <= 400; ++length) {
    const uint8_t* const pieces[] = {bytes.data(), bytes.data() + 401};
    Digest digests[2];
    Sha256Pair(pieces, length, digests);
    for (size_t i = 0; i < 2; ++i) ASSERT_EQ(digests[i], Sha256({pieces[i], length})) << length;
  }
}

TEST(Digest, ATreeIsItsDomainLengthAndLeaves) {
  // Broken: the layout that the header of digest.h promises, and with it every stored digest.
  std::vector<uint8_t> bytes(kBlockBytes + 3);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  const std::vector<Digest> leaves = TreeLeaves(bytes);
  ASSERT_EQ(leaves.size(), 2u);
  EXPECT_EQ(leaves[1], Sha256(absl::MakeConstSpan(bytes).subspan(kBlockBytes)));
  std::string layout = "atoll.tree.1";
  for (int i = 0; i < 8; ++i) layout += static_cast<char>((bytes.size() >> (8 * i)) & 0xff);
  layout += ToBytes(leaves[0]) + ToBytes(leaves[1]);
  EXPECT_EQ(TreeDigest(bytes), Sha256(Bytes(layout)));
}

TEST(Digest, ATreeTellsLengthsApart) {
  // Broken: a payload with zeros cut off or added at a block's edge would pass for another.
  EXPECT_EQ(TreeLeaves({}).size(), 0u);
  std::vector<Digest> seen;
  for (const size_t size : {size_t{0}, size_t{1}, kBlockBytes - 1, kBlockBytes, kBlockBytes + 1}) {
    const std::vector<uint8_t> zeros(size);
    seen.push_back(TreeDigest(zeros));
    for (size_t i = 0; i + 1 < seen.size(); ++i) EXPECT_NE(seen[i], seen.back());
  }
}

TEST(Digest, TravelsAsThirtyTwoBytes) {
  // Broken: a short or long digest from the wire would be read past its end.
  const Digest digest = Sha256(Bytes("x"));
  EXPECT_EQ(*DigestFromBytes(ToBytes(digest)), digest);
  EXPECT_TRUE(absl::IsInvalidArgument(DigestFromBytes("").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(DigestFromBytes(std::string(33, 'x')).status()));
}

TEST(DigestBuilder, KeepsFieldsApart) {
  // Broken: bytes could move from one field into the next without a change of the digest.
  EXPECT_NE(DigestBuilder("d").Bytes("ab").Bytes("c").Finish(),
            DigestBuilder("d").Bytes("a").Bytes("bc").Finish());
  EXPECT_NE(DigestBuilder("d").U64(1).Finish(), DigestBuilder("e").U64(1).Finish());
  const std::string layout("\1\0\0\0\0\0\0\0d\2\1\0\0\0\0\0\0", 17);
  EXPECT_EQ(DigestBuilder("d").U64(0x102).Finish(), Sha256(Bytes(layout)));
}

}  // namespace
}  // namespace atolld
