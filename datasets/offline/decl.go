package offline

import (
	"go/ast"
	"go/token"
	"strings"
)

// decl is a function, a method or a type at the top of a file.
type decl struct {
	pkg       *goPackage
	file      *goFile
	name      string
	recv      string         // type of the receiver, of a method
	doc       string         // its documentation
	signature string         // without body, in one or more lines
	source    string         // all of it, documentation included
	params    *ast.FieldList // of a function
}

// exported says whether its name is; a method's receiver must be, too.
func (d *decl) exported() bool {
	return ast.IsExported(d.name) && (d.recv == "" || ast.IsExported(d.recv))
}

// qualified is how documentation names it: bufio.Reader.Peek.
func (d *decl) qualified() string {
	name := d.pkg.path + "."
	if d.recv != "" {
		name += d.recv + "."
	}
	return name + d.name
}

// decls lists the declarations of a file.
func (f *goFile) decls(p *goPackage) (list []*decl) {
	for _, d := range f.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			list = append(list, f.function(p, d))
		case *ast.GenDecl:
			if d.Tok == token.TYPE {
				list = append(list, f.types(p, d)...)
			}
		}
	}
	return list
}

func (f *goFile) function(p *goPackage, d *ast.FuncDecl) *decl {
	end := d.End()
	if d.Body != nil {
		end = d.Body.Pos()
	}
	out := &decl{pkg: p, file: f, name: d.Name.Name, doc: d.Doc.Text(), params: d.Type.Params,
		signature: strings.TrimSpace(f.between(d.Type.Pos(), end)), source: f.between(begin(d.Doc, d.Pos()), d.End())}
	if d.Recv != nil {
		out.signature = strings.TrimSpace(f.between(d.Pos(), end))
		out.recv = receiver(d.Recv)
	}
	return out
}

// types lists the types of one declaration, which may be a group.
func (f *goFile) types(p *goPackage, d *ast.GenDecl) (list []*decl) {
	for _, s := range d.Specs {
		t := s.(*ast.TypeSpec)
		doc, from := t.Doc, t.Pos()
		if doc == nil && !d.Lparen.IsValid() {
			doc, from = d.Doc, d.Pos()
		}
		list = append(list, &decl{pkg: p, file: f, name: t.Name.Name, doc: doc.Text(),
			signature: firstLines(f.between(from, t.End()), 24), source: f.between(begin(doc, from), t.End())})
	}
	return list
}

// begin is where a declaration begins with its documentation.
func begin(doc *ast.CommentGroup, pos token.Pos) token.Pos {
	if doc != nil {
		return doc.Pos()
	}
	return pos
}

// receiver is the name of a receiver's type.
func receiver(list *ast.FieldList) string {
	x := list.List[0].Type
	for {
		switch t := x.(type) {
		case *ast.StarExpr:
			x = t.X
		case *ast.IndexExpr:
			x = t.X
		case *ast.IndexListExpr:
			x = t.X
		case *ast.Ident:
			return t.Name
		default:
			return "?"
		}
	}
}

// between is the source from one place to another.
func (f *goFile) between(from, to token.Pos) string {
	return f.text[f.offset(from):f.offset(to)]
}

// firstLines cuts a text after n lines and says so.
func firstLines(text string, n int) string {
	all := lines(text)
	if len(all) <= n {
		return text
	}
	return strings.Join(all[:n], "") + "\t// …\n"
}
