//! Finds the places of a source file where a small mistake can be made, and makes some of them, each behind a switch.
//!
//! Every change has the type of the code that it replaces, whatever the types are, so a file that compiled still does with all changes.
//! Compile-time constants, patterns, types, macros, tests and human-readable texts are left alone.

use std::collections::BTreeMap;

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Arm, Attribute, BinOp, Block, Expr, ExprCall, ExprMethodCall, ExprRepeat, File, ImplItemFn, Item, ItemFn, ItemImpl, Lit, Local, Pat,
    ReturnType, Signature, Stmt, TraitItemFn, Type, UnOp, parse_quote,
};

use crate::site::Site;

/// The maximum length of code in a report.
const TOLD: usize = 80;

/// The places of a file.
pub(crate) fn sites(file: &str, text: &str) -> syn::Result<Vec<Site>> {
    Ok(visited(file, text, &BTreeMap::new())?.0)
}

/// The file with the places of `chosen`, by their positions in [`sites`], behind switches with these numbers.
pub(crate) fn with_switches(file: &str, text: &str, chosen: &BTreeMap<usize, usize>) -> syn::Result<String> {
    Ok(visited(file, text, chosen)?.1.into_token_stream().to_string())
}

fn visited(file: &str, text: &str, chosen: &BTreeMap<usize, usize>) -> syn::Result<(Vec<Site>, File)> {
    let mut tree = syn::parse_file(text)?;
    let mut visitor = Visitor {
        file,
        chosen,
        functions: Vec::new(),
        switches: Switches::default(),
        sites: Vec::new(),
        seen: BTreeMap::new(),
        within_kube: is_of_kube(file),
    };
    visitor.visit_file_mut(&mut tree);
    Ok((visitor.sites, tree))
}

/// Whether the file belongs to the package that has the switches.
pub(crate) fn is_of_kube(file: &str) -> bool {
    file.starts_with("core/kube/")
}

struct Visitor<'a> {
    file: &'a str,
    chosen: &'a BTreeMap<usize, usize>,
    /// The names of the enclosing functions, and of the types and traits of their blocks.
    functions: Vec<String>,
    switches: Switches,
    sites: Vec<Site>,
    seen: BTreeMap<(String, String, String), usize>,
    within_kube: bool,
}

impl Visitor<'_> {
    /// Records a place. Returns the condition under which the mutant is active, if it is one of the chosen.
    fn switch(&mut self, span: Span, code: &impl ToTokens, instead: &str) -> Option<Expr> {
        if self.functions.is_empty() {
            return None;
        }
        let (function, code) = (self.functions.join("::"), told(code));
        let seen = self.seen.entry((function.clone(), code.clone(), instead.to_owned())).or_default();
        let site =
            Site { file: self.file.to_owned(), line: span.start().line, function, code, instead: instead.to_owned(), repeated: *seen };
        *seen += 1;
        let number = self.chosen.get(&self.sites.len()).map(|number| proc_macro2::Literal::usize_unsuffixed(*number));
        self.sites.push(site);
        let number = number?;
        Some(if self.within_kube { parse_quote!(crate::mutant::is(#number)) } else { parse_quote!(::kube_machinery::mutant::is(#number)) })
    }

    /// Replaces an expression by another one in the mutant.
    fn exchange(&mut self, expr: &mut Expr, instead: &Expr) {
        if let Some(switch) = self.switch(expr.span(), expr, &told(instead)) {
            *expr = parse_quote!((if #switch { #instead } else { #expr }));
        }
    }

    /// Makes a condition always true, or always false, in the mutant. `known` was determined before anything in the condition was put
    /// behind a switch.
    fn force(&mut self, condition: &mut Expr, known: Known) {
        if has_let(condition) || known.all {
            return;
        }
        if known.off != Some(true)
            && let Some(switch) = self.switch(condition.span(), condition, "true")
        {
            *condition = parse_quote!((#switch || #condition));
        }
        if known.off != Some(false)
            && let Some(switch) = self.switch(condition.span(), condition, "false")
        {
            // An `||` binds less tightly than the `&&` put before it.
            *condition = parse_quote!((!#switch && (#condition)));
        }
    }

    fn function(&mut self, attributes: &[Attribute], signature: &Signature, block: &mut Block) {
        if signature.constness.is_some() || is_of_tests(attributes) || signature.ident == "fmt" {
            return;
        }
        self.functions.push(signature.ident.to_string());
        let outer = std::mem::take(&mut self.switches);
        visit_mut::visit_block_mut(self, block);
        self.switches = outer;
        for value in values(&signature.output) {
            if let Some(switch) = self.switch(signature.ident.span(), &signature.ident, &format!("return {}", told(&value))) {
                block.stmts.insert(0, parse_quote!(if #switch { return #value; }));
            }
        }
        self.functions.pop();
    }
}

impl VisitMut for Visitor<'_> {
    fn visit_item_mut(&mut self, item: &mut Item) {
        let attributes = match item {
            Item::Const(_) | Item::Static(_) | Item::Macro(_) => return,
            Item::Mod(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            _ => &[][..],
        };
        if !is_of_tests(attributes) {
            visit_mut::visit_item_mut(self, item);
        }
    }

    fn visit_impl_item_mut(&mut self, item: &mut syn::ImplItem) {
        if !matches!(item, syn::ImplItem::Const(_)) {
            visit_mut::visit_impl_item_mut(self, item);
        }
    }

    fn visit_item_impl_mut(&mut self, item: &mut ItemImpl) {
        // Formatting for humans is not for sweeps to judge.
        let name = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last()).map(|segment| segment.ident.to_string());
        if matches!(name.as_deref(), Some("Display" | "Debug" | "Error")) {
            return;
        }
        let name = match &*item.self_ty {
            Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        self.functions.push(name.unwrap_or_else(|| told(&item.self_ty)));
        visit_mut::visit_item_impl_mut(self, item);
        self.functions.pop();
    }

    fn visit_item_fn_mut(&mut self, item: &mut ItemFn) {
        self.function(&item.attrs, &item.sig, &mut item.block);
    }

    fn visit_impl_item_fn_mut(&mut self, item: &mut ImplItemFn) {
        self.function(&item.attrs, &item.sig, &mut item.block);
    }

    fn visit_trait_item_fn_mut(&mut self, item: &mut TraitItemFn) {
        if let Some(block) = &mut item.default {
            self.function(&item.attrs, &item.sig, block);
        }
    }

    fn visit_attribute_mut(&mut self, _: &mut Attribute) {}

    fn visit_type_mut(&mut self, _: &mut Type) {}

    fn visit_pat_mut(&mut self, _: &mut Pat) {}

    fn visit_generic_argument_mut(&mut self, _: &mut syn::GenericArgument) {}

    fn visit_expr_repeat_mut(&mut self, repeat: &mut ExprRepeat) {
        self.visit_expr_mut(&mut repeat.expr);
    }

    fn visit_arm_mut(&mut self, arm: &mut Arm) {
        let Some((_, guard)) = &mut arm.guard else { return self.visit_expr_mut(&mut arm.body) };
        let known = self.switches.known(guard);
        self.visit_expr_mut(guard);
        if known.off != Some(false) {
            self.visit_expr_mut(&mut arm.body);
        }
        self.force(guard, known);
    }

    fn visit_local_mut(&mut self, local: &mut Local) {
        visit_mut::visit_local_mut(self, local);
        if let Pat::Ident(name) = &local.pat {
            let value = local.init.as_ref().filter(|init| self.switches.are_all_of(&init.expr));
            let value = value.and_then(|init| self.switches.off(&init.expr));
            self.switches.name(name.ident.to_string(), value);
        }
    }

    fn visit_stmt_mut(&mut self, stmt: &mut Stmt) {
        visit_mut::visit_stmt_mut(self, stmt);
        if let Stmt::Expr(expr, Some(_)) = stmt
            && can_go(expr)
            && let Some(switch) = self.switch(expr.span(), expr, "nothing")
        {
            *stmt = parse_quote!(if !#switch { #expr; });
        }
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if let Expr::If(branch) = expr {
            // Code that only a deviation reaches is left to the named mutations.
            let known = self.switches.known(&branch.cond);
            self.visit_expr_mut(&mut branch.cond);
            if known.off != Some(false) {
                self.visit_block_mut(&mut branch.then_branch);
            }
            if let Some((_, otherwise)) = branch.else_branch.as_mut().filter(|_| known.off != Some(true)) {
                self.visit_expr_mut(otherwise);
            }
            return self.force(&mut branch.cond, known);
        }
        let (Known { all, .. }, alone) = (self.switches.known(expr), self.switches.alone(expr));
        visit_mut::visit_expr_mut(self, expr);
        match expr {
            Expr::Binary(_) if !all => {
                for instead in other_operators(expr, alone) {
                    self.exchange(expr, &instead);
                }
            }
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) && !all => {
                let instead = (*unary.expr).clone();
                self.exchange(expr, &instead);
            }
            Expr::Lit(lit) => {
                let instead = match &lit.lit {
                    Lit::Bool(lit) if lit.value => Some(parse_quote!(false)),
                    Lit::Bool(_) => Some(parse_quote!(true)),
                    Lit::Int(lit) => other_number(lit),
                    _ => None,
                };
                if let Some(instead) = instead {
                    self.exchange(expr, &instead);
                }
            }
            Expr::Call(call) if is_some(call) => self.exchange(expr, &parse_quote!(None)),
            Expr::MethodCall(call) => {
                if let Some(instead) = other_method(call) {
                    self.exchange(expr, &instead);
                }
            }
            _ => {}
        }
    }
}

/// The code of an expression on one line.
fn told(code: &impl ToTokens) -> String {
    // Approximately as in the source: tokens come with a space between any two.
    let mut text = code.to_token_stream().to_string();
    let spaces = [
        (" && ", "\0"),
        (" . ", "."),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" :: ", "::"),
        ("& ", "&"),
        (" ,", ","),
        (" ?", "?"),
        ("! ", "!"),
    ];
    for (spaced, close) in spaces.into_iter().chain([("\0", " && ")]) {
        text = text.replace(spaced, close);
    }
    match text.char_indices().nth(TOLD) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Whether the attributes include `#[test]`, `#[cfg(test)]` or another one that only tests have.
fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .any(|attribute| attribute.path().is_ident("test") || (attribute.path().is_ident("cfg") && told(&attribute.meta).contains("test")))
}

/// Whether there is a pattern among the operands of the conjunction, which binds names for later operands.
fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// Values of this type that a function can return at once.
fn values(output: &ReturnType) -> Vec<Expr> {
    let ReturnType::Type(_, ty) = output else { return vec![parse_quote!(())] };
    match told(ty).as_str() {
        "bool" => vec![parse_quote!(true), parse_quote!(false)],
        text if text.starts_with("Option <") => vec![parse_quote!(None)],
        text if text.starts_with("Vec <") => vec![parse_quote!(Vec::new())],
        text if text.starts_with("Result < ()") => vec![parse_quote!(Ok(()))],
        _ => Vec::new(),
    }
}

/// Whether a statement can be removed: the compiler needs it for nothing that follows.
fn can_go(expr: &Expr) -> bool {
    match expr {
        // Without it, a lock would stay locked: the process would hang, and sweeps would notice nothing else.
        Expr::Call(call) => told(&call.func) != "drop",
        Expr::MethodCall(_) => true,
        Expr::Await(inner) => can_go(&inner.base),
        Expr::Try(inner) => can_go(&inner.expr),
        Expr::Assign(assign) => matches!(*assign.left, Expr::Field(_) | Expr::Index(_) | Expr::Unary(_)),
        Expr::Binary(binary) => {
            matches!(
                binary.op,
                BinOp::AddAssign(_) | BinOp::SubAssign(_) | BinOp::BitOrAssign(_) | BinOp::BitAndAssign(_) | BinOp::MulAssign(_)
            )
        }
        _ => false,
    }
}

/// The same operands with a similar operator. `alone`: whether each operand by itself is a different condition.
fn other_operators(expr: &Expr, alone: [bool; 2]) -> Vec<Expr> {
    let Expr::Binary(binary) = expr else { return Vec::new() };
    let (left, right) = (&binary.left, &binary.right);
    let operands = [left, right].into_iter().zip(alone).filter(|(_, alone)| *alone).map(|(operand, _)| (**operand).clone());
    match binary.op {
        BinOp::Eq(_) => vec![parse_quote!(#left != #right)],
        BinOp::Ne(_) => vec![parse_quote!(#left == #right)],
        BinOp::Lt(_) => vec![parse_quote!(#left <= #right)],
        BinOp::Le(_) => vec![parse_quote!(#left < #right)],
        BinOp::Gt(_) => vec![parse_quote!(#left >= #right)],
        BinOp::Ge(_) => vec![parse_quote!(#left > #right)],
        BinOp::And(_) if !has_let(expr) => operands.chain([parse_quote!(#left || #right)]).collect(),
        BinOp::Or(_) => {
            let left = in_parentheses(left);
            operands.chain([parse_quote!(#left && #right)]).collect()
        }
        _ => Vec::new(),
    }
}

/// An operand in the form needed beside `&&`: one that is itself an `||`, as `a || b` in `a || b || c`, would be split.
fn in_parentheses(operand: &Expr) -> Expr {
    match operand {
        Expr::Binary(binary) if matches!(binary.op, BinOp::Or(_)) => parse_quote!((#operand)),
        _ => operand.clone(),
    }
}

/// The known facts about a condition.
#[derive(Clone, Copy)]
struct Known {
    /// Whether it only reads switches of deviations.
    all: bool,
    /// Its value if all of them are off; `None` = it depends on more.
    off: Option<bool>,
}

/// The switches of deviations that a function names: named mutations turn them on, and by default they are off.
#[derive(Default)]
struct Switches {
    /// The values of names that stand for expressions reading only switches, if all switches are off.
    named: BTreeMap<String, bool>,
}

impl Switches {
    /// Makes a name stand for `value` from here on; `None` = for something else than switches.
    fn name(&mut self, name: String, value: Option<bool>) {
        match value {
            Some(value) => drop(self.named.insert(name, value)),
            None => drop(self.named.remove(&name)),
        }
    }

    fn known(&self, condition: &Expr) -> Known {
        Known { all: self.are_all_of(condition), off: self.off(condition) }
    }

    /// Whether an expression only reads switches.
    fn are_all_of(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Paren(inner) => self.are_all_of(&inner.expr),
            Expr::Unary(unary) => self.are_all_of(&unary.expr),
            Expr::Binary(binary) => self.are_all_of(&binary.left) && self.are_all_of(&binary.right),
            Expr::Field(field) => told(&field.base).contains("policy"),
            Expr::Path(path) => path.path.get_ident().is_some_and(|name| self.named.contains_key(&name.to_string())),
            _ => false,
        }
    }

    /// The value of a condition if all switches are off; `None` = it depends on more.
    fn off(&self, expr: &Expr) -> Option<bool> {
        match expr {
            Expr::Paren(inner) => self.off(&inner.expr),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => self.off(&unary.expr).map(|value| !value),
            Expr::Binary(binary) => {
                // The value of one operand that decides the result.
                let enough = match binary.op {
                    BinOp::And(_) => false,
                    BinOp::Or(_) => true,
                    _ => return None,
                };
                let sides = [self.off(&binary.left), self.off(&binary.right)];
                if sides.contains(&Some(enough)) { Some(enough) } else { (!sides.contains(&None)).then_some(!enough) }
            }
            Expr::Path(path) => self.named.get(&path.path.get_ident()?.to_string()).copied(),
            _ => self.are_all_of(expr).then_some(false),
        }
    }

    /// For each of the two operands of an expression, whether it alone is a different expression: the omitted one reads more than switches,
    /// and matters when all switches are off.
    fn alone(&self, expr: &Expr) -> [bool; 2] {
        let Expr::Binary(binary) = expr else { return [false; 2] };
        let whole = self.off(expr);
        let differs = |one: &Expr, without: &Expr| !self.are_all_of(without) && (whole.is_none() || self.off(one) != whole);
        [differs(&binary.left, &binary.right), differs(&binary.right, &binary.left)]
    }
}

/// A number next to this one.
fn other_number(lit: &syn::LitInt) -> Option<Expr> {
    let value: u128 = lit.base10_parse().ok()?;
    let other = if value == 1 { 0 } else { value + 1 };
    let other = syn::LitInt::new(&format!("{other}{}", lit.suffix()), lit.span());
    Some(parse_quote!(#other))
}

fn is_some(call: &ExprCall) -> bool {
    matches!(&*call.func, Expr::Path(path) if path.path.is_ident("Some")) && call.args.len() == 1
}

/// The same call with the opposite method.
fn other_method(call: &ExprMethodCall) -> Option<Expr> {
    let opposite = match call.method.to_string().as_str() {
        "all" => "any",
        "any" => "all",
        "min" => "max",
        "max" => "min",
        "is_some" => "is_none",
        "is_none" => "is_some",
        "is_ok" => "is_err",
        "is_err" => "is_ok",
        "is_some_and" => "is_none_or",
        "is_none_or" => "is_some_and",
        "min_by_key" => "max_by_key",
        "max_by_key" => "min_by_key",
        "first" => "last",
        "is_empty" | "contains" | "contains_key" | "is_terminating" | "starts_with" => {
            return Some(parse_quote!(!#call));
        }
        _ => return None,
    };
    let mut other = call.clone();
    other.method = syn::Ident::new(opposite, call.method.span());
    Some(Expr::MethodCall(other))
}

#[cfg(test)]
mod tests;
