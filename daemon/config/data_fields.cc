#include "daemon/config/data_fields.h"

#include <iterator>
#include <utility>

namespace atolld {
namespace {

std::vector<ConfigField> SourceFields(DataConfig& data) {
  ConfigField path = {"path", Text{&data.path, TextForm::kPath, true}, Recorded::kInPart,
                      "the text to train on, a file or a folder",
                      "Set it on each machine that trains. The run records the digest of what the "
                      "first worker reads there."};
  path.needed_by = {ConfigUse::kLocal, ConfigUse::kPeer};
  return {
      path,
      {"validation_fraction", RealNumber{&data.validation_fraction, 0, 0.5},
       As("data.validation_fraction"),
       "share of the text, at its end, that is held out for validation",
       "Lower it for a large corpus, of which evaluation reads a small part anyway."},
      {"tokenizer", Text{&data.tokenizer, TextForm::kPlain}, Recorded::kInPart,
       "how text becomes tokens: 'bytes', 'chars', or a file (tokenizer.json, SentencePiece)",
       "Take a file to train a model with its own tokenizer, 'chars' for a small alphabet. "
       "The run records its kind, and later the file's digest. A peer that names none gets a file "
       "of at most 64 MiB from the others."},
      {"field", Text{&data.field, TextForm::kPlain, true}, As("data.field"),
       "name of the text in lines of JSON, 'a.b' for a nested one; empty: text",
       "Set it if your lines of JSON have their text under another name."},
      {"kind", OneOf(&data.kind, {"text", "plain", "jsonl", "chat", "bin", "npy", "prepared"}),
       Recorded::kYes, "form of the files; 'text': the files themselves say what they are",
       "Name another form to refuse files that are of any other, 'plain' to train on tables and "
       "JSON as they are, with all their punctuation, or 'chat' to train on prompts and their "
       "completions."},
      {"width", WholeNumber{&data.width, 0, 64}, Recorded::kYes,
       "size of a token id in files that do not say it, as bytes (1, 2, 4 or 8) or as bits (16, 32 "
       "or 64); 0: 2 bytes where possible",
       "Set it to 4 or 32 for bare files of 32-bit ids, as np.uint32 gives them. A vocabulary "
       "above 65,536 needs it."},
      {"end_of_text", Text{&data.end_of_text, TextForm::kPlain, true}, As("data.end_of_text"),
       "the token that stands between two documents; empty: the one that the tokenizer's files "
       "name",
       "Set it if `atoll data inspect` says that another one, or a newline, stands there."},
      {"on_bad_line", OneOf(&data.on_bad_line, {"stop", "skip"}), UnlessDefault("data.on_bad_line"),
       "what to do at a line of JSON that holds no text: 'stop', or 'skip' and count it",
       "Take 'skip' if some lines of a large corpus are known to be bad. The worker's log says how "
       "many there were and shows the first three."},
      {"sources", Text{&data.sources, TextForm::kPlain, true}, Recorded::kInPart,
       "several sources with weights in place of `path`, like 'books:0.7,code:0.3'",
       "Set it to mix several corpora. The run records the weights."},
  };
}

// The keys of conversations, and of private data.
std::vector<ConfigField> SpecialFields(DataConfig& data) {
  return {
      {"template", Text{&data.chat_template, TextForm::kOneOf, true, {"chatml", "llama3"}},
       As("data.chat_template"),
       "how the messages of a conversation are written: 'chatml' or 'llama3'; empty: the data is "
       "not conversations",
       "Set it to fine-tune on lines of JSON with messages. The tokenizer must have the tokens of "
       "the template."},
      {"loss_on", OneOf(&data.loss_on, {"completions", "all"}), UnlessDefault("data.loss_on"),
       "what of a conversation is learnt: 'completions', which the assistant says, or 'all'",
       "Leave it, unless the model is to learn to ask as well."},
      {"packing", OneOf(&data.packing, {"none", "join"}), UnlessDefault("data.packing"),
       "whether a sequence is one conversation ('none'), or is cut from all of them, one behind "
       "the "
       "other ('join')",
       "Take 'join' if the conversations are far shorter than the context and the model may see "
       "one behind the other."},
      {"private", Flag{&data.is_private}, As("data.private"),
       "whether every peer has data of its own at `path`, which never leaves it",
       "Switch it on for a federation of parties whose data differ. Nothing is leased then, and "
       "each peer goes through its own data epoch by epoch."},
      {"validation", Text{&data.validation, TextForm::kPath, true}, Recorded::kInPart,
       "with private data, a file that all evaluate on; empty: each evaluates on its own data",
       "Set it where there is a text that everybody may see. A peer that names none gets a file "
       "of at most 64 MiB from the others."},
  };
}

}  // namespace

std::vector<ConfigField> DataFields(Config& config) {
  std::vector<ConfigField> fields = SourceFields(config.data);
  std::vector<ConfigField> special = SpecialFields(config.data);
  fields.insert(fields.end(), std::make_move_iterator(special.begin()),
                std::make_move_iterator(special.end()));
  return fields;
}

}  // namespace atolld
