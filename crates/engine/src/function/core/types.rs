//! `instanceOfBoolean` and its family: the class of the actual value; null is of none.

use event::{Column, Type, Values};
use plan::spec::FunctionSpec;

use super::KNOWN;
use crate::component::{Argument, EvalContext, Evaluate, Function, Refused};
use crate::spec::runs;

pub struct InstanceOf {
    spec: &'static FunctionSpec,
    ty: Type,
}

macro_rules! instance_of {
    ($constant:ident, $name:literal, $ty:ident, $example:literal) => {
        pub static $constant: InstanceOf = InstanceOf {
            spec: &const { runs(KNOWN, $name, $example) },
            ty: Type::$ty,
        };
    };
}

instance_of!(
    INSTANCE_OF_BOOLEAN,
    "instanceOfBoolean",
    Bool,
    "instanceOfBoolean(symbol) as b"
);
instance_of!(
    INSTANCE_OF_DOUBLE,
    "instanceOfDouble",
    Double,
    "instanceOfDouble(price) as b"
);
instance_of!(
    INSTANCE_OF_FLOAT,
    "instanceOfFloat",
    Float,
    "instanceOfFloat(price) as b"
);
instance_of!(
    INSTANCE_OF_INTEGER,
    "instanceOfInteger",
    Int,
    "instanceOfInteger(price) as b"
);
instance_of!(
    INSTANCE_OF_LONG,
    "instanceOfLong",
    Long,
    "instanceOfLong(price) as b"
);
instance_of!(
    INSTANCE_OF_STRING,
    "instanceOfString",
    String,
    "instanceOfString(symbol) as b"
);

impl Function for InstanceOf {
    fn spec(&self) -> &'static FunctionSpec {
        self.spec
    }

    fn bind(&self, _: &[Argument]) -> Result<Box<dyn Evaluate>, Refused> {
        Ok(Box::new(ClassTest(self.ty)))
    }
}

struct ClassTest(Type);

impl Evaluate for ClassTest {
    fn evaluate(&mut self, args: &[Column], rows: usize, _: &mut EvalContext<'_>) -> Column {
        let column = &args[0];
        let marks = (0..rows)
            .map(|row| column.value(row).ty() == Some(self.0))
            .collect();
        Column::new(Values::Bool(marks), None)
    }

    fn is_fallible(&self) -> bool {
        false
    }
}
