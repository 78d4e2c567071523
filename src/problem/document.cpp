#include "problem/document.h"

#include "base/json.h"
#include "problem/fields.h"
#include "problem/values.h"

namespace regard {
namespace {

template <class Enum>
std::string alternatives() {
  std::string text;
  for (const WordInfo& row : words_of<Enum>()) text += (text.empty() ? "" : "|") + std::string(row.word);
  return text;
}

template <class Value>
std::string written(std::string_view name, const Value&) {
  const std::string text(name);
  if constexpr (std::is_same_v<Value, bool>) {
    return text;
  } else if constexpr (std::is_same_v<Value, std::int64_t>) {
    return text + "=N";
  } else if constexpr (std::is_enum_v<Value>) {
    const bool bare = std::is_same_v<Value, Pass> || name == "dtype";
    return (bare ? "" : text + "=") + alternatives<Value>();
  } else if constexpr (std::is_same_v<Value, InternedText> || std::is_same_v<Value, FunctionNumbers>) {
    return text + "=TEXT";
  } else {
    return text + "=X";
  }
}

std::string default_of(Field field, const auto& value) {
  if (field == Field::out) return "that of Q; bf16 for fp8";
  if (field == Field::bias_type || field == Field::rope_type) return "that of Q; fp32 for fp8";
  if (field == Field::kv) return "that of Q";
  if (field == Field::dv) return "d";
  if (field == Field::scale) return "1/sqrt(d)";
  if (field == Field::splits) return "auto";
  if (value_text(value).empty()) return "none";
  return value_text(value);
}

/// Text in a Markdown table cell, where a bar would end the cell.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? "\\|" : std::string(1, c);
  return escaped;
}
std::string code(std::string_view text) {
  return "`" + cell(text) + "`";
}

template <class Enum>
void append_enumeration(std::string& markdown, std::string_view title) {
  markdown += "\n### " + std::string(title) + "\n\n| word | meaning |\n|---|---|\n";
  for (const WordInfo& row : words_of<Enum>()) {
    markdown += "| " + code(row.word) + " | " + cell(row.doc) + " |\n";
  }
}

}  // namespace

std::vector<WordHelp> word_help() {
  std::vector<WordHelp> words;
  const Problem defaults;
  for_each_field(defaults, [&](Field field, const auto& value) {
    const FieldInfo& row = info(field);
    words.push_back({written(row.name, value), default_of(field, value), std::string(row.doc),
                     row.category != Category::SHAPE});
  });
  for (const Composite& composite : composite_table()) {
    words.push_back({std::string(composite.word), "", std::string(composite.doc), false});
  }
  return words;
}

std::string word_help_json() {
  JsonWriter json;
  json.list([&] {
    for (const WordHelp& help : word_help()) {
      json.object([&] {
        json.member("word", help.word);
        json.member("default", help.default_text);
        json.member("doc", help.doc);
        json.member("in_signature", help.in_signature);
      });
    }
  });
  return json.take();
}

std::string word_help_markdown() {
  std::string markdown = "| word | default | part of the kernel | meaning |\n|---|---|---|---|\n";
  for (const WordHelp& help : word_help()) {
    markdown += "| " + code(help.word) + " | " + cell(help.default_text) + " | " +
                (help.in_signature ? "yes" : "") + " | " + cell(help.doc) + " |\n";
  }
  append_enumeration<Pass>(markdown, "Passes");
  append_enumeration<DType>(markdown, "Data types");
  append_enumeration<Mask>(markdown, "Masks");
  append_enumeration<Bias>(markdown, "Biases");
  append_enumeration<Descale>(markdown, "Descale factors");
  append_enumeration<SlotType>(markdown, "Slots of new tokens");
  append_enumeration<Positions>(markdown, "Positions of new tokens");
  append_enumeration<PageTable>(markdown, "Page tables");
  append_enumeration<KvLayout>(markdown, "Layouts of pages");
  append_enumeration<Rope>(markdown, "Rotary embeddings");
  append_enumeration<Layout>(markdown, "Layouts of tensors");
  markdown += "\nOther names of data types: ";
  std::string aliases;
  for (const Alias& alias : dtype_aliases()) {
    aliases += (aliases.empty() ? "" : ", ") + code(alias.alias) + " = " + code(alias.word);
  }
  return markdown + aliases + ".\n";
}

}  // namespace regard
