// Would break: peers of two releases misunderstand each other, a log of an earlier release cannot
// be read, or a worker in another language stops working, since a field was renumbered, renamed,
// removed or given another type.
//
// wire-RELEASE.txt has, of every message of the protocol, one with all fields set, as that release
// wrote it: name, bytes in hexadecimal, and what they say. It is never changed. When fields have
// been added, the next release adds a file of its own:
//   ATOLL_WRITE_WIRE=tests/unit/membership/history/wire-0.3.0.txt membership_test
//     --gtest_filter='WireFileTest.*'
#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "atoll/v1/exchange.pb.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/plan.pb.h"
#include "atoll/v1/replica.pb.h"
#include "atoll/v1/run.pb.h"
#include "atoll/v1/worker.pb.h"
#include "compression/base/bytes.h"

namespace atolld {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::UnknownFieldSet;

// What is said between processes of two releases, or lies on a disk. Admin and machine are left
// out: atoll is of the release of the daemon that it asks.
std::vector<const FileDescriptor*> WireFiles() {
  return {v1::RunSpec::descriptor()->file(),         v1::Plan::descriptor()->file(),
          v1::Hello::descriptor()->file(),           v1::ExchangeOpen::descriptor()->file(),
          v1::SnapshotRequest::descriptor()->file(), v1::WorkerHello::descriptor()->file()};
}

void SetWireField(Message* message, const FieldDescriptor* field, int depth);

// Every field, of each oneof the `choice`-th; messages inside have their own, two deep.
void FillWireMessage(Message* message, int depth, int choice = 0) {
  const Descriptor* const type = message->GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* const field = type->field(i);
    const auto* const of = field->real_containing_oneof();
    if (of != nullptr && of->field(choice % of->field_count()) != field) continue;
    SetWireField(message, field, depth);
  }
}

void SetWireScalar(Message* message, const FieldDescriptor* field) {
  const Reflection* const reflection = message->GetReflection();
  const bool many = field->is_repeated();
  const int number = field->number();
  const auto set = [&](auto add, auto put, auto value) {
    many ? (reflection->*add)(message, field, value) : (reflection->*put)(message, field, value);
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return set(&Reflection::AddInt32, &Reflection::SetInt32, -number);
    case FieldDescriptor::CPPTYPE_INT64:
      return set(&Reflection::AddInt64, &Reflection::SetInt64, -int64_t{number} << 33);
    case FieldDescriptor::CPPTYPE_UINT32:
      return set(&Reflection::AddUInt32, &Reflection::SetUInt32,
                 static_cast<uint32_t>(number) << 20);
    case FieldDescriptor::CPPTYPE_UINT64:
      return set(&Reflection::AddUInt64, &Reflection::SetUInt64,
                 static_cast<uint64_t>(number) << 40);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return set(&Reflection::AddDouble, &Reflection::SetDouble, number + 0.5);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return set(&Reflection::AddFloat, &Reflection::SetFloat, static_cast<float>(number) + 0.5f);
    case FieldDescriptor::CPPTYPE_BOOL:
      return set(&Reflection::AddBool, &Reflection::SetBool, true);
    case FieldDescriptor::CPPTYPE_ENUM:
      return set(&Reflection::AddEnumValue, &Reflection::SetEnumValue, 1);
    case FieldDescriptor::CPPTYPE_STRING:
      return set(&Reflection::AddString, &Reflection::SetString, absl::StrCat("f", number));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
}

void SetWireField(Message* message, const FieldDescriptor* field, int depth) {
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return SetWireScalar(message, field);
  const Reflection* const reflection = message->GetReflection();
  Message* const inner = field->is_repeated() ? reflection->AddMessage(message, field)
                                              : reflection->MutableMessage(message, field);
  if (depth > 0) FillWireMessage(inner, depth - 1);
}

bool KnowsAllFields(const Message& message) {
  const Reflection* const reflection = message.GetReflection();
  if (!reflection->GetUnknownFields(message).empty()) return false;
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* const field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      if (!KnowsAllFields(reflection->GetMessage(message, field))) return false;
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      if (!KnowsAllFields(reflection->GetRepeatedMessage(message, field, i))) return false;
    }
  }
  return true;
}

std::string WireText(const Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  EXPECT_TRUE(printer.PrintToString(message, &text));
  return text;
}

std::unique_ptr<Message> NewWireMessage(const Descriptor* type) {
  return std::unique_ptr<Message>(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
}

std::string WireFile() {
  std::string lines;
  for (const FileDescriptor* const file : WireFiles()) {
    for (int i = 0; i < file->message_type_count(); ++i) {
      const Descriptor* const type = file->message_type(i);
      const int choices =
          type->real_oneof_decl_count() == 0 ? 1 : type->oneof_decl(0)->field_count();
      for (int choice = 0; choice < choices; ++choice) {
        const auto message = NewWireMessage(type);
        FillWireMessage(message.get(), choices > 1 ? 0 : 1, choice);
        absl::StrAppend(&lines, type->full_name(), "\t",
                        absl::BytesToHexString(message->SerializeAsString()), "\t",
                        WireText(*message), "\n");
      }
    }
  }
  return lines;
}

class WireTest : public ::testing::TestWithParam<const char*> {};

TEST_P(WireTest, MessagesOfAnEarlierReleaseSayWhatTheySaid) {
  std::ifstream file(absl::StrCat(ATOLL_WIRE_FILES, "/wire-", GetParam(), ".txt"));
  int messages = 0;
  for (std::string line; std::getline(file, line); ++messages) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits('\t', 2));
    ASSERT_EQ(parts.size(), 3u) << line;
    const Descriptor* const type =
        google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(parts[0]);
    ASSERT_NE(type, nullptr) << parts[0] << " is gone";
    const auto message = NewWireMessage(type);
    ASSERT_TRUE(message->ParseFromString(BytesOfHex(parts[1]))) << parts[0];
    EXPECT_TRUE(KnowsAllFields(*message))
        << parts[0] << " has lost a field, or given it another type";
    EXPECT_EQ(WireText(*message), parts[2]) << parts[0];
  }
  EXPECT_GE(messages, 80) << "the file of " << GetParam();
}
INSTANTIATE_TEST_SUITE_P(Releases, WireTest, ::testing::Values("0.2.0"), [](const auto& release) {
  std::string name = release.param;
  for (char& c : name) c = c == '.' ? '_' : c;
  return name;
});

// Also how the file of a release is written.
TEST(WireFileTest, EveryMessageWithAllItsFieldsComesBackAsItWas) {
  const std::string lines = WireFile();
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(lines, '\n'))) {
    if (line.empty()) continue;
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits('\t', 2));
    EXPECT_FALSE(absl::StrContains(parts[2], "\n"));
  }
  const char* const path = getenv("ATOLL_WRITE_WIRE");
  if (path != nullptr) std::ofstream(path) << lines;
}

}  // namespace
}  // namespace atolld
