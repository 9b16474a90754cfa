// Would break: the digest of a run that was made by an earlier release is another one, so its
// signed history, its logs and its peers are refused.
//
// spec-digests-RELEASE.txt has a line for each field of a run's description as that release had
// it: the field's path, the digest of a genesis in which it alone is set, and the digest of one in
// which all others are. It is never changed. It was written by
//   ATOLL_WRITE_DIGESTS=tests/unit/membership/history/spec-digests-0.2.0.txt membership_test
//     --gtest_filter='SpecDigestFile.*'
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "atoll/v1/run.pb.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Lists the path of each field that is no message, such as "spec.mode.kind". The messages of a
// repeated field count as one field, as do those of a message that holds messages of its own type.
void ListPaths(const Descriptor& type, const std::string& before, std::vector<std::string>* paths) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string path = absl::StrCat(before, field.name());
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_repeated()) {
      ListPaths(*field.message_type(), path + ".", paths);
    } else {
      paths->push_back(path);
    }
  }
}

void SetScalar(Message* message, const FieldDescriptor& field) {
  const Reflection& access = *message->GetReflection();
  const bool many = field.is_repeated();
  const auto number = static_cast<uint32_t>(field.number());
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return many ? access.AddUInt32(message, &field, number)
                  : access.SetUInt32(message, &field, number);
    case FieldDescriptor::CPPTYPE_UINT64:
      return many ? access.AddUInt64(message, &field, number)
                  : access.SetUInt64(message, &field, number);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return many ? access.AddDouble(message, &field, number + 0.5)
                  : access.SetDouble(message, &field, number + 0.5);
    case FieldDescriptor::CPPTYPE_BOOL:
      return access.SetBool(message, &field, true);
    case FieldDescriptor::CPPTYPE_STRING:
      return many ? access.AddString(message, &field, absl::StrCat("f", number))
                  : access.SetString(message, &field, absl::StrCat("f", number));
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      Message* const element = access.AddMessage(message, &field);
      const Descriptor& type = *field.message_type();
      for (int i = 0; i < type.field_count(); ++i) {
        if (type.field(i)->message_type() != &type) SetScalar(element, *type.field(i));
      }
      return;
    }
    default:
      FAIL() << "a field of a new type: " << field.full_name();
  }
}

void SetPath(Message* message, const std::string& path) {
  const std::vector<std::string> steps = absl::StrSplit(path, '.');
  for (size_t i = 0; i < steps.size(); ++i) {
    const FieldDescriptor* const field = message->GetDescriptor()->FindFieldByName(steps[i]);
    ASSERT_NE(field, nullptr) << path << " is gone";
    if (i + 1 == steps.size()) return SetScalar(message, *field);
    message = message->GetReflection()->MutableMessage(message, field);
  }
}

std::string DigestOf(const std::vector<std::string>& paths, const std::string& without = "") {
  v1::Genesis genesis;
  for (const std::string& path : paths) {
    if (path != without) SetPath(&genesis, path);
  }
  return ToHex(GenesisDigest(genesis));
}

TEST(SpecDigestFile, AnEarlierReleasesRunsKeepTheirDigests) {
  std::ifstream file(absl::StrCat(ATOLL_WIRE_FILES, "/spec-digests-0.2.0.txt"));
  std::vector<std::vector<std::string>> lines;
  std::vector<std::string> paths;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(absl::StrSplit(line, ' '));
    ASSERT_EQ(lines.back().size(), 3u) << line;
    paths.push_back(lines.back()[0]);
  }
  ASSERT_GE(paths.size(), 140u);
  for (const std::vector<std::string>& line : lines) {
    EXPECT_EQ(DigestOf({line[0]}), line[1]) << line[0] << " alone";
    EXPECT_EQ(DigestOf(paths, line[0]), line[2]) << "all but " << line[0];
  }
}

TEST(SpecDigestFile, IsWrittenForARelease) {
  std::vector<std::string> paths;
  ListPaths(*v1::Genesis::descriptor(), "", &paths);
  EXPECT_GE(paths.size(), 140u);
  const char* const name = getenv("ATOLL_WRITE_DIGESTS");
  if (name == nullptr) return;
  std::ofstream file(name);
  for (const std::string& path : paths) {
    file << path << " " << DigestOf({path}) << " " << DigestOf(paths, path) << "\n";
  }
}

}  // namespace
}  // namespace atolld
