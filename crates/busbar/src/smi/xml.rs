//! All that is known of GPUs, in XML: `nvidia-smi -q -x`.

use super::card::Card;
use super::readings::{Part, Section, head, process};
use std::fmt::Write;

/// What is above the document's root.
const TOP: &str = "<?xml version=\"1.0\" ?>\n\
                   <!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v13.dtd\">\n";

/// How elements of numbers begin whose hexadecimal digits stand alone.
const BARE: &str = "pci_";

/// A text as XML has it, without characters that XML cannot have.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&apos;",
            '\t' | ' '..='\u{fffd}' | '\u{10000}'.. => out.push(c),
            _ => out.push('\u{fffd}'),
        }
    }
    out
}

/// A document as it is written.
struct Document {
    text: String,
    depth: usize,
}

impl Document {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{}{text}", "\t".repeat(self.depth));
    }

    /// An element with a text.
    fn leaf(&mut self, element: &str, value: Option<&str>) {
        let value = escaped(value.unwrap_or("N/A"));
        self.line(&format!("<{element}>{value}</{element}>"));
    }

    /// An element with others in it.
    fn element(&mut self, element: &str, attributes: &str, within: impl FnOnce(&mut Self)) {
        self.line(&format!("<{element}{attributes}>"));
        self.depth += 1;
        within(self);
        self.depth -= 1;
        self.line(&format!("</{element}>"));
    }

    fn parts(&mut self, card: &Card<'_>, all: &[Part]) {
        for part in all {
            match part {
                Part::Row(r) => {
                    let value = r.value(card);
                    let shown = value.as_deref().map(|v| match r.element.starts_with(BARE) {
                        true => v.trim_start_matches("0x"),
                        false => v,
                    });
                    self.leaf(r.element, shown);
                }
                Part::Group { element, parts, .. } => {
                    self.element(element, "", |d| d.parts(card, parts));
                }
                Part::Processes => self.element("processes", "", |d| {
                    for p in card.processes() {
                        d.element("process_info", "", |d| {
                            for (_, element, value) in process(&p) {
                                d.leaf(element, value.as_deref());
                            }
                        });
                    }
                }),
            }
        }
    }
}

/// These sections of some GPUs.
pub fn drawn(cards: &[Card<'_>], sections: &[&Section]) -> String {
    let mut document = Document {
        text: TOP.into(),
        depth: 0,
    };
    document.element("nvidia_smi_log", "", |d| {
        for (_, element, value) in head(cards) {
            d.leaf(element, value.as_deref());
        }
        for card in cards {
            let id = format!(" id=\"{}\"", escaped(&card.place_or_index()));
            d.element("gpu", &id, |d| {
                for s in sections {
                    d.parts(card, s.parts);
                }
            });
            d.text.push('\n');
        }
    });
    document.text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smi::card::cards;
    use crate::smi::readings::sections;
    use busbar_control::status::Status;
    use serde_json::json;

    #[test]
    fn programs_have_elements_and_what_they_say_is_escaped() {
        let document = json!({
            "devices": [{ "api": "cuda", "ordinal": 0, "name": "<GPU>", "pci": [0, 24, 0] }],
            "sessions": [
                { "session": "a", "api": "cuda", "devices": [0], "user": "ann", "host": "laptop",
                  "pid": 4711, "program": "/bin/a&b </gpu>",
                  "memory": { "device": { "pieces": 1, "bytes": 3_145_728, "most": 1 } } },
                { "session": "b", "api": "opencl", "devices": [0], "program": "cl" },
            ],
        });
        let status: Status = serde_json::from_value(document).unwrap();
        let text = drawn(&cards(&[("a", &status)]), &sections(Some("pids")).unwrap());
        let (_, gpu) = text.split_once("</attached_gpus>\n").unwrap();
        let wanted = "\
\t<gpu id=\"00000000:18:00.0\">
\t\t<processes>
\t\t\t<process_info>
\t\t\t\t<gpu_instance_id>N/A</gpu_instance_id>
\t\t\t\t<compute_instance_id>N/A</compute_instance_id>
\t\t\t\t<pid>4711</pid>
\t\t\t\t<type>C</type>
\t\t\t\t<process_name>ann@laptop a&amp;b &lt;/gpu&gt;</process_name>
\t\t\t\t<used_memory>3 MiB</used_memory>
\t\t\t</process_info>
\t\t</processes>
\t</gpu>

</nvidia_smi_log>
";
        assert_eq!(gpu, wanted, "\n{text}");
    }

    #[test]
    fn what_xml_reads_as_its_own_is_escaped() {
        assert_eq!(
            escaped("a<b> & \"c\" 'd'\u{1}\u{ffff}"),
            "a&lt;b&gt; &amp; &quot;c&quot; &apos;d&apos;\u{fffd}\u{fffd}"
        );
    }
}
